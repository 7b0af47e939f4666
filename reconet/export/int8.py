"""Weights and activations in 8 bits, after the training: nncf calibrates, a score judges.

First everything is quantised. If that costs more than is allowed, parts of the network stay in
fp32, from the small ones that are most sensitive to the larger: the gates and products of the
attention, then the whole head, then also the first layers.
"""

import contextlib
import io
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconet.cpu import make_bf16_safe
from reconet.errors import MissingExtraError
from reconet.export.pictures import Pictures, windows_of
from reconet.export.write import as_openvino
from reconet.protocol import Protocol

# What stays in fp32, try by try: paths of modules in the traced network.
KEPT: tuple[tuple[str, ...], ...] = (
    (),
    ("model.context.core",),
    ("model.context", "model.classify"),
    ("model.context", "model.classify", "model.backbone.conv1", "model.backbone.layer1"),
)
SCOPES = "pkg.torch.onnx.name_scopes"  # where torch writes the module that a node came from


@dataclass(frozen=True, kw_only=True)
class Try:
    """One quantised network, and what it scores; no score where there are no labels to judge by."""

    kept: tuple[str, ...]  # modules that stayed in fp32
    before: float | None  # mIoU
    after: float | None

    @property
    def loss(self) -> float:
        """Points of mIoU."""
        if self.before is None or self.after is None:
            return 0.0
        return 100 * (self.before - self.after)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"loss_points": self.loss}


def calibration(pictures: Pictures, protocol: Protocol) -> Iterator[NDArray[np.uint8]]:
    """One window of each picture, as it will be shown to the network: the first, the second ..."""
    for number, image_hwc in enumerate(pictures):
        window_bchw = windows_of(image_hwc, protocol)
        place = number % len(window_bchw)
        yield window_bchw[place : place + 1]


def quantise(proto: Any, windows: Sequence[NDArray[np.uint8]], kept: Sequence[str]) -> Any:
    """An onnx.ModelProto as an openvino.Model in int8."""
    make_bf16_safe()  # calibration runs the network
    try:
        with _hushed():
            import nncf
    except ImportError as error:
        raise MissingExtraError("export", "--int8") from error
    model = as_openvino(proto)
    names = _names_below(proto, kept) & {op.get_friendly_name() for op in model.get_ops()}
    with _hushed():
        return nncf.quantize(
            model,
            nncf.Dataset(windows),
            preset=nncf.QuantizationPreset.MIXED,
            subset_size=len(windows),
            ignored_scope=nncf.IgnoredScope(names=sorted(names)) if names else None,
        )


def search(
    make: Callable[[tuple[str, ...]], Any],
    score: Callable[[Any], float | None],
    before: float | None,
    max_loss: float,
    choices: Iterable[tuple[str, ...]] = KEPT,
) -> tuple[Any, list[Try]]:
    """The first quantised network that loses no more than allowed, else the last one tried."""
    tries: list[Try] = []
    model: Any = None
    for kept in choices:
        model = make(kept)
        tries.append(Try(kept=kept, before=before, after=score(model)))
        if tries[-1].loss <= max_loss:
            break
    return model, tries


def _names_below(proto: Any, kept: Sequence[str]) -> set[str]:
    """Nodes of the graph, and their outputs, that came from some modules: OpenVINO calls its
    operations by the one or the other."""
    names: set[str] = set()
    for node in proto.graph.node:
        texts = {entry.key: entry.value for entry in node.metadata_props}
        scopes = json.loads(texts.get(SCOPES, "[]").replace("'", '"'))
        if set(kept) & set(scopes):
            names.update((node.name, *node.output))
    return names


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """Without nncf's bars and remarks: our own say what goes on."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)
