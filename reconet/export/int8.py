"""Weights and activations in 8 bits, after the training: nncf calibrates, a score judges.

First everything is quantised. If that costs more than is allowed, parts of the network stay in
fp32, from the small ones that are most sensitive to the larger: the gates and products of the
attention, then the whole head, then also the first layers.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconet.errors import ExportError, MissingExtraError
from reconet.export.images import (
    Images,
    from_dataset,
    from_folder,
    of_recipe,
    readable,
    windows_of,
)
from reconet.export.judge import Counter, Judge, open_judge
from reconet.export.write import as_openvino, quiet
from reconet.inference.backends.export_info import ExportInfo
from reconet.inference.network import in_use
from reconet.inference.protocol import Protocol
from reconet.models.trained import TrainedNetwork
from reconet.system.hardware import make_bf16_safe

# What stays in fp32, try by try: paths of modules in the traced network.
KEPT: tuple[tuple[str, ...], ...] = (
    (),
    ("model.context.core",),
    ("model.context", "model.classify"),
    ("model.context", "model.classify", "model.backbone.conv1", "model.backbone.layer1"),
)
SCOPES = "pkg.torch.onnx.name_scopes"  # where torch writes the module that a node came from


@dataclass(frozen=True, kw_only=True)
class Int8:
    """How to quantise."""

    calibrate: Path | None = None  # a folder of images; by default the training images
    images: int = 64  # to calibrate by
    split: str | None = None  # to score on; by default the recipe's validation split
    score_on: int | None = None  # images of it; by default all
    max_loss: float = 0.5  # points of mIoU


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


@dataclass(frozen=True, kw_only=True)
class Quantised:
    """A network in int8 that lost little enough, or could not be judged."""

    model: Any  # openvino.Model
    info: ExportInfo
    tries: tuple[Try, ...]
    images: Images  # that it was calibrated by
    judge: Judge | None

    @property
    def calibrated_on(self) -> str:
        return self.images.source

    @property
    def scored_on(self) -> str:
        return self.judge.what if self.judge else ""

    def others(self, most: int) -> Images:
        """Other images than those that it was calibrated by, where there are any."""
        return from_dataset(self.judge.dataset, most) if self.judge else self.images


def quantised(
    trained: TrainedNetwork,
    info: ExportInfo,
    proto: Any,
    options: Int8,
    root: Path | None,
    tell: Callable[[str], None],
    progress: Counter | None,
) -> Quantised:
    """Calibrate, and score try after try, until one loses little enough; none is an error."""
    images = _to_calibrate_by(trained, options, root, tell)
    recipe = trained.info.recipe
    windows = list(calibration(images, Protocol.of(recipe.eval, recipe.data)))
    judge = open_judge(
        trained, split=options.split, score_on=options.score_on, root=root, progress=progress
    )
    tell("scoring the network as it is ...")
    before = judge.score(in_use(trained.model, judge.world.device)) if judge else None
    info = replace(info, precision="int8")

    def make(kept: tuple[str, ...]) -> Any:
        rest = f", all but {', '.join(kept)}" if kept else ""
        tell(f"quantising by {images.source}{rest} ...")
        return quantise(proto, windows, kept)

    def score(model: Any) -> float | None:
        return None if judge is None else judge.score_of(model, info)

    model, tries = search(make, score, before, options.max_loss)
    _refuse(tries, options.max_loss)
    found = Quantised(model=model, info=info, tries=tuple(tries), images=images, judge=judge)
    facts = {"calibrated_on": found.calibrated_on, "scored_on": found.scored_on}
    return replace(found, info=replace(info, int8=tries[-1].as_dict() | facts))


def _to_calibrate_by(
    trained: TrainedNetwork, options: Int8, root: Path | None, tell: Callable[[str], None]
) -> Images:
    recipe = trained.info.recipe
    if options.calibrate is not None:
        return readable(from_folder(options.calibrate, options.images), tell)
    return of_recipe(recipe, recipe.data.train_split, root, options.images)


def _refuse(tries: Sequence[Try], max_loss: float) -> None:
    if tries[-1].loss > max_loss:
        losses = ", ".join(f"{one.loss:.2f}" for one in tries)
        raise ExportError(
            f"int8 loses more than {max_loss:g} points of mIoU in every try ({losses}); "
            "calibrate by more images, or allow more with --max-loss."
        )


def calibration(images: Images, protocol: Protocol) -> Iterator[NDArray[np.uint8]]:
    """One window of each image, as it will be shown to the network: the first, the second ..."""
    for number, image_hwc in enumerate(images):
        window_bchw = windows_of(image_hwc, protocol)
        place = number % len(window_bchw)
        yield window_bchw[place : place + 1]


def quantise(proto: Any, windows: Sequence[NDArray[np.uint8]], kept: Sequence[str]) -> Any:
    """An onnx.ModelProto as an openvino.Model in int8."""
    make_bf16_safe()  # calibration runs the network
    try:
        with quiet():
            import nncf
    except ImportError as error:
        raise MissingExtraError("export", "--int8") from error
    model = as_openvino(proto)
    names = _names_below(proto, kept) & {op.get_friendly_name() for op in model.get_ops()}
    with quiet():
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
