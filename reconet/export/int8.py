"""Quantise a trained network to weights and activations of 8 bits.

nncf calibrates on images. A score on labelled images decides whether the result is good enough.
First everything is quantised. If that costs more than allowed, parts of the network stay in fp32.
The first are small and most sensitive: the gates and products of the attention. Then follow the
whole head, and the first layers.
"""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reconet.data import open_split
from reconet.data.dataset import Dataset, evenly_spaced, has_labels, title_of
from reconet.errors import AbsentError, DataError, ExportError, MissingExtraError
from reconet.evaluation import no_labels_error
from reconet.evaluation.metrics import benchmark_scores, confusion_matrix
from reconet.export.formats import quiet, save_openvino, to_openvino
from reconet.export.sample_images import (
    SampleImages,
    images_in_folder,
    images_of_dataset,
    load_samples,
    readable_images,
    windows_of,
)
from reconet.inference.backends import ExportInfo
from reconet.inference.network import make_forward, open_export
from reconet.inference.protocol import Protocol
from reconet.inference.windows import Forward, predict_labels
from reconet.models.segmenter import Segmenter
from reconet.models.trained import NetworkInfo, TrainedNetwork
from reconet.system.hardware import make_bf16_safe
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted

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
    calibrated_on: str
    scored_on: str  # empty if it could not be scored
    images: SampleImages  # to compare on: others than it was calibrated by, if there are any


def quantise_network(
    trained: TrainedNetwork,
    info: ExportInfo,
    proto: Any,
    options: Int8,
    root: Path | None,
    compare_on: int,
    progress: Progress = SILENT,
) -> QuantisedNetwork:
    """Quantise and score until an attempt loses little enough. If none does, raise an error."""
    recipe = trained.info.recipe
    if options.calibrate is not None:
        images = readable_images(images_in_folder(options.calibrate, options.images), progress)
    else:
        images = load_samples(recipe, recipe.data.train_split, root, options.images)
    windows = windows_of(images, Protocol.of(recipe.eval, recipe.data))
    dataset = _open_labelled(trained.info, options.split, root)
    scored_on, before, after = "", None, None
    if dataset is not None:
        chosen = evenly_spaced(len(dataset), options.score_on or len(dataset))
        count = counted(len(chosen), "image")
        scored_on = f"{count} of {title_of(dataset)}"
        progress.status("scoring the network in fp32 ...")
        exact = make_forward(trained.model, torch.device("cpu"))
        before = _score(exact, trained.info, dataset, chosen, progress)
    info, attempts = replace(info, precision="int8"), list[Attempt]()
    for kept in kept_in_fp32(trained.model):
        rest = f", all but {', '.join(kept)}" if kept else ""
        progress.status(f"quantising by {images.description}{rest} ...")
        model = quantise(proto, windows, kept)
        if dataset is not None:
            with tempfile.TemporaryDirectory() as folder:  # opened from a file, as users will do
                path = Path(folder) / "model.xml"
                save_openvino(model, info, path)
                forward = open_export(path, trusted=True).forward
                after = _score(forward, trained.info, dataset, chosen, progress)
        attempts.append(Attempt(kept=kept, before=before, after=after))
        if attempts[-1].loss <= options.max_loss:
            break
    else:
        losses = ", ".join(f"{attempt.loss:.2f}" for attempt in attempts)
        raise ExportError(
            f"int8 loses more than {options.max_loss:g} points of mIoU in every attempt "
            f"({losses}); calibrate by more images, or allow more with --max-loss."
        )
    made_by = {"calibrated_on": images.description, "scored_on": scored_on}
    return QuantisedNetwork(
        model=model,
        info=replace(info, int8=attempts[-1].as_dict() | made_by),
        attempts=tuple(attempts),
        calibrated_on=images.description,
        scored_on=scored_on,
        images=images if dataset is None else images_of_dataset(dataset, compare_on),
    )


def _open_labelled(info: NetworkInfo, split: str | None, root: Path | None) -> Dataset | None:
    """Open a split to score on, or return None if the dataset is not on this machine.

    A dataset that the user named by `root` or `split` must be there.
    """
    data = info.recipe.data
    try:
        dataset = open_split(data, split or data.val_split, root)
    except AbsentError:
        if root is not None or split is not None:
            raise
        return None
    if not has_labels(dataset):
        raise DataError(
            f"{data.name} {dataset.split} has no labels to score against; name another split."
        )
    return dataset


def _score(
    forward: Forward,
    info: NetworkInfo,
    dataset: Dataset,
    chosen: Sequence[int],
    progress: Progress,
) -> float:
    """Return the mIoU of a network on some images, by the protocol of its recipe."""
    recipe, classes = info.recipe, len(info.classes)
    protocol = Protocol.of(recipe.eval, recipe.data)
    count_kk = torch.zeros(classes, classes, dtype=torch.int64)
    progress.start(len(chosen), "score")
    for index in chosen:
        _, image_hwc, label_hw = dataset[index]
        found_hw = predict_labels(forward, torch.from_numpy(image_hwc), protocol, classes)
        count_kk += confusion_matrix(torch.from_numpy(label_hw), found_hw, classes)
        progress.advance()
    if not count_kk.sum():
        raise no_labels_error(dataset)
    return benchmark_scores(count_kk, recipe.data.name, info.classes).mean_iou


def kept_in_fp32(model: Segmenter) -> tuple[tuple[str, ...], ...]:
    """Return what stays in fp32 in each attempt, at last the first layers of the backbone too."""
    first = tuple(f"model.backbone.{name}" for name in model.backbone.first_modules)
    return (*KEPT_IN_FP32, (*KEPT_IN_FP32[-1], *first)) if first else KEPT_IN_FP32


def quantise(proto: Any, windows: Sequence[NDArray[np.uint8]], kept: Sequence[str]) -> Any:
    """Convert an onnx.ModelProto to an openvino.Model in int8."""
    make_bf16_safe()  # calibration runs the network
    try:
        with quiet():
            import nncf
    except ImportError as error:
        raise MissingExtraError("export", "--int8") from error
    model = to_openvino(proto)
    # OpenVINO names its operations after the nodes of ONNX, or after their outputs.
    below: set[str] = set()
    for node in proto.graph.node:
        texts = {entry.key: entry.value for entry in node.metadata_props}
        if set(kept) & set(json.loads(texts.get(SCOPES, "[]").replace("'", '"'))):
            below.update((node.name, *node.output))
    names = sorted(below & {op.get_friendly_name() for op in model.get_ops()})
    with quiet():
        return nncf.quantize(
            model,
            nncf.Dataset(windows),
            preset=nncf.QuantizationPreset.MIXED,
            subset_size=len(windows),
            ignored_scope=nncf.IgnoredScope(names=names) if names else None,
        )
