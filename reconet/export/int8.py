"""Quantise a trained network to weights and activations of 8 bits.

nncf calibrates on images. A score on labelled images decides whether the result is good enough.
First everything is quantised. If that costs more than allowed, parts of the network stay in fp32.
The first are small and most sensitive: the gates and products of the attention. Then follow the
whole head, and the first layers.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconet.errors import ExportError, MissingExtraError
from reconet.export.formats import quiet, to_openvino
from reconet.export.int8_score import Int8Scorer, open_scorer
from reconet.export.sample_images import (
    SampleImages,
    images_in_folder,
    images_of_dataset,
    load_samples,
    readable_images,
    windows_of,
)
from reconet.inference.backends import ExportInfo
from reconet.inference.network import make_forward
from reconet.inference.protocol import Protocol
from reconet.models.segmenter import Segmenter
from reconet.models.trained import TrainedNetwork
from reconet.system.distributed import pick_device
from reconet.system.hardware import make_bf16_safe
from reconet.system.progress import SILENT, Progress

# The modules that stay in fp32 in each attempt: their paths in the traced network.
KEPT_IN_FP32: tuple[tuple[str, ...], ...] = (
    (),
    ("model.context.core",),
    ("model.context", "model.classify"),
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
class Attempt:
    """One quantised network and its mIoU. Without labelled images there is no mIoU."""

    kept: tuple[str, ...]  # modules that stayed in fp32
    before: float | None  # mIoU in fp32
    after: float | None  # mIoU in int8

    @property
    def loss(self) -> float:
        """Return the points of mIoU that were lost."""
        if self.before is None or self.after is None:
            return 0.0
        return 100 * (self.before - self.after)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self) | {"loss_points": self.loss}


@dataclass(frozen=True, kw_only=True)
class QuantisedNetwork:
    """A network in int8 that lost little enough, or that could not be scored."""

    model: Any  # openvino.Model
    info: ExportInfo
    attempts: tuple[Attempt, ...]
    images: SampleImages  # that it was calibrated by
    scorer: Int8Scorer | None

    @property
    def calibrated_on(self) -> str:
        return self.images.description

    @property
    def scored_on(self) -> str:
        return self.scorer.description if self.scorer else ""

    def other_images(self, most: int) -> SampleImages:
        """Choose images that it was not calibrated by, if there are any."""
        return images_of_dataset(self.scorer.dataset, most) if self.scorer else self.images


def quantise_network(
    trained: TrainedNetwork,
    info: ExportInfo,
    proto: Any,
    options: Int8,
    root: Path | None,
    progress: Progress = SILENT,
) -> QuantisedNetwork:
    """Quantise and score until an attempt loses little enough. If none does, raise an error."""
    recipe = trained.info.recipe
    if options.calibrate is not None:
        images = readable_images(images_in_folder(options.calibrate, options.images), progress)
    else:
        images = load_samples(recipe, recipe.data.train_split, root, options.images)
    windows = list(calibration_windows(images, Protocol.of(recipe.eval, recipe.data)))
    scorer = open_scorer(
        trained.info, split=options.split, score_on=options.score_on, root=root, progress=progress
    )
    progress.status("scoring the network in fp32 ...")
    before = scorer.score(make_forward(trained.model, pick_device("cpu"))) if scorer else None
    info = replace(info, precision="int8")

    def make(kept: tuple[str, ...]) -> Any:
        rest = f", all but {', '.join(kept)}" if kept else ""
        progress.status(f"quantising by {images.description}{rest} ...")
        return quantise(proto, windows, kept)

    def score(model: Any) -> float | None:
        return None if scorer is None else scorer.score_openvino(model, info)

    choices = kept_in_fp32(trained.model)
    model, attempts = search(make, score, before, options.max_loss, choices)
    if attempts[-1].loss > options.max_loss:
        losses = ", ".join(f"{attempt.loss:.2f}" for attempt in attempts)
        raise ExportError(
            f"int8 loses more than {options.max_loss:g} points of mIoU in every attempt "
            f"({losses}); calibrate by more images, or allow more with --max-loss."
        )
    found = QuantisedNetwork(
        model=model, info=info, attempts=tuple(attempts), images=images, scorer=scorer
    )
    made_by = {"calibrated_on": found.calibrated_on, "scored_on": found.scored_on}
    return replace(found, info=replace(info, int8=attempts[-1].as_dict() | made_by))


def kept_in_fp32(model: Segmenter) -> tuple[tuple[str, ...], ...]:
    """Return what stays in fp32 in each attempt, at last the first layers of the backbone too."""
    first = tuple(f"model.backbone.{name}" for name in model.backbone.first_modules)
    return (*KEPT_IN_FP32, (*KEPT_IN_FP32[-1], *first)) if first else KEPT_IN_FP32


def calibration_windows(images: SampleImages, protocol: Protocol) -> Iterator[NDArray[np.uint8]]:
    """Yield one window of each image, as the protocol cuts it: the first, the second ..."""
    for number, image_hwc in enumerate(images):
        window_bchw = windows_of(image_hwc, protocol)
        index = number % len(window_bchw)
        yield window_bchw[index : index + 1]


def quantise(proto: Any, windows: Sequence[NDArray[np.uint8]], kept: Sequence[str]) -> Any:
    """Convert an onnx.ModelProto to an openvino.Model in int8."""
    make_bf16_safe()  # calibration runs the network
    try:
        with quiet():
            import nncf
    except ImportError as error:
        raise MissingExtraError("export", "--int8") from error
    model = to_openvino(proto)
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
    choices: Iterable[tuple[str, ...]] = KEPT_IN_FP32,
) -> tuple[Any, list[Attempt]]:
    """Return the first quantised network within the allowed loss, else the last one."""
    attempts: list[Attempt] = []
    model: Any = None
    for kept in choices:
        model = make(kept)
        attempts.append(Attempt(kept=kept, before=before, after=score(model)))
        if attempts[-1].loss <= max_loss:
            break
    return model, attempts


def _names_below(proto: Any, kept: Sequence[str]) -> set[str]:
    """Return the names of the nodes that came from some modules, and of their outputs.

    OpenVINO names its operations after the one or the other.
    """
    names: set[str] = set()
    for node in proto.graph.node:
        texts = {entry.key: entry.value for entry in node.metadata_props}
        scopes = json.loads(texts.get(SCOPES, "[]").replace("'", '"'))
        if set(kept) & set(scopes):
            names.update((node.name, *node.output))
    return names
