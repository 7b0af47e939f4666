"""Export a trained network to one file, and check the file against the network.

The network is traced once and written in a format of FORMATS. The runtime of that format opens
the file and runs it on real images of three sizes: the training crop, one that is not square, and
a smaller one with two images. If it disagrees with the network, that is an error.
"""

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from reconet.errors import ExportError, pick
from reconet.export.formats import FORMATS, export_info, save_openvino, to_onnx, trace
from reconet.export.int8 import Attempt, Int8, quantise_network
from reconet.export.sample_images import SampleImages, batch_of, images_in_folder, load_samples
from reconet.export.web import PAGE, is_page, write_page
from reconet.inference import FoundNetwork, find_network
from reconet.inference.backends import (
    LABELS,
    LOGITS,
    ExportedNetwork,
    open_exported,
    remember_export,
    was_exported,
)
from reconet.models.layers import resize
from reconet.models.segmenter import Segmenter
from reconet.models.trained import load_trained
from reconet.recipes.schema import Recipe
from reconet.system.files import check_output_file, check_output_folder, staged_write
from reconet.system.progress import SILENT, Progress
from reconet.system.reading import WEIGHTS_BYTES, read_file

COMPARED_IMAGES = 4
WEB = "web"  # a page: not a file that this package opens again
# fp32 sums in another order differ by no more than this.
LARGEST_DIFFERENCE = 1e-3
LEAST_AGREEMENT = 0.999


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The difference between an export and its network on images of one size."""

    images: int
    size: tuple[int, int]
    logits: float  # largest difference, in units of the largest logit
    labels: float  # fraction of the pixels with the same label

    @property
    def is_rounding(self) -> bool:
        return self.logits <= LARGEST_DIFFERENCE and self.labels >= LEAST_AGREEMENT

    def __str__(self) -> str:
        return (
            f"{self.images} x {self.size[0]} x {self.size[1]}: logits differ by "
            f"{self.logits:.1e} of the largest, {100 * self.labels:.3f} % of the labels agree"
        )


@dataclass(frozen=True, kw_only=True)
class Export:
    """An exported file, how it differs from its network, and what quantisation cost."""

    path: Path
    format: str
    how: str  # the runtime that opened it, and its precision
    bytes: int  # of all files of the export
    feed: str  # advice on the size of images
    images: str  # that it was compared on
    differences: tuple[Difference, ...]
    calibrated_on: str = ""
    scored_on: str = ""
    tries: tuple[Attempt, ...] = ()
    remark: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain = {**vars(self), "path": str(self.path)}
        return plain | {
            "differences": [asdict(difference) for difference in self.differences],
            "tries": [attempt.as_dict() for attempt in self.tries],
        }


def export(
    source: str | Path,
    *,
    format: str = "onnx",
    out: Path | None = None,
    int8: Int8 | None = None,
    root: Path | None = None,
    progress: Progress = SILENT,
) -> Export:
    """Export a network, by its path or name. See docs/export.md."""
    if format == WEB:
        return _export_page(source, out, int8, root, progress)
    chosen = pick({**FORMATS, WEB: FORMATS["onnx"]}, format, "format")
    if int8 is not None and format != "openvino":
        raise ExportError(f"--int8 needs --format openvino, got --format {format}.")
    if int8 is not None and int8.calibrate is not None:
        images_in_folder(int8.calibrate, 1)  # a wrong folder fails now, not after the tracing
    network = find_network(source, progress=progress)
    trained = load_trained(network.path)
    path = out or default_path(network, chosen.suffix, int8 is not None)
    if path.suffix != chosen.suffix:
        raise ExportError(f"--out of format {format} ends in {chosen.suffix}, got {path}.")
    recipe = trained.info.recipe
    reason = trained.model.context.info.not_in_onnx
    if reason and format != "torch":
        raise ExportError(
            f"{recipe.model.context} cannot be written as {format}: {reason}. Use --format torch."
        )
    check_output_file(path, was_exported)
    if path.suffix == ".xml" and not path.exists():  # its .bin is written too
        check_output_file(path.with_suffix(".bin"), lambda file: False)
    info = export_info(trained)
    progress.status("tracing ...")
    program = trace(trained.model)
    made = None
    if int8 is None:
        images = load_samples(recipe, recipe.data.val_split, root, COMPARED_IMAGES)
        write = partial(chosen.write, program, info)
    else:
        proto = to_onnx(program)
        made = quantise_network(trained, info, proto, int8, root, COMPARED_IMAGES, progress)
        images, write = made.images, partial(save_openvino, made.model, made.info)
    # One that disagrees does not replace the file before it.
    with staged_write(path) as temporary:
        progress.status(f"writing {path} ...")
        write(temporary)
        progress.status("comparing with the network ...")
        opened = open_exported(temporary, (LABELS, LOGITS), trusted=True)
        differences = compare_with_network(opened, trained.model, images)
        wrong = next((one for one in differences if not one.is_rounding), None)
        if wrong is not None and made is None:
            raise ExportError(f"{path} does not compute what its network does: {wrong}.")
    remember_export(path)
    files = {path, path.with_suffix(".bin")} if path.suffix == ".xml" else {path}
    unscored = made is not None and not made.scored_on
    return Export(
        path=path,
        format=format,
        how=opened.how,
        bytes=sum(file.stat().st_size for file in files if file.is_file()),
        feed=input_size_advice(recipe),
        images=images.description,
        differences=tuple(differences),
        calibrated_on=made.calibrated_on if made else "",
        scored_on=made.scored_on if made else "",
        tries=made.attempts if made else (),
        remark=f"mIoU not measured: {recipe.data.name} is not on this machine" if unscored else "",
    )


def _export_page(
    source: str | Path, out: Path | None, int8: Int8 | None, root: Path | None, progress: Progress
) -> Export:
    """Write a page that runs the network in a browser. Its network is a checked ONNX file."""
    if int8 is not None:
        raise ExportError("--int8 needs --format openvino, got --format web.")
    network = find_network(source, progress=progress)
    folder = out or default_path(network, "-web", int8=False)
    check_output_folder(folder, is_page)
    with TemporaryDirectory() as place:
        path = Path(place) / "model.onnx"
        made = export(source, out=path, root=root, progress=progress)
        progress.status(f"writing {folder} ...")
        trained = load_trained(network.path)
        write_page(folder, read_file(path, limit=WEIGHTS_BYTES), export_info(trained))
    total = sum(file.stat().st_size for file in folder.iterdir())
    return replace(made, path=folder / PAGE, format=WEB, bytes=total)


@torch.no_grad()
def compare_with_network(
    opened: ExportedNetwork, model: Segmenter, images: SampleImages
) -> list[Difference]:
    """Compare an export, opened for labels and logits, with the network in torch."""
    least = opened.info.smallest
    height, width = (max(side, least) for side in opened.info.network.recipe.data.crop)
    wide = (max(least, 3 * height // 4 + 1), 5 * width // 4 + 3)
    small = (max(least, height // 2 + 5), max(least, width // 2))
    differences = []
    for count, size in ((1, (height, width)), (1, wide), (2, small)):
        image_bchw = batch_of(images, count, size)
        label_bhw, logits_bkij = opened(image_bchw)
        true_bkij = model.coarse(image_bchw)
        true_bhw = resize(true_bkij, size).argmax(1)
        logits, labels = float("inf"), 0.0
        if logits_bkij.shape == true_bkij.shape and label_bhw.shape == true_bhw.shape:
            scale = true_bkij.abs().max().clamp_min(torch.finfo(torch.float32).tiny)
            logits = ((logits_bkij - true_bkij).abs().max() / scale).item()
            labels = (label_bhw == true_bhw).double().mean().item()
        differences.append(Difference(images=count, size=size, logits=logits, labels=labels))
    return differences


def default_path(network: FoundNetwork, suffix: str, int8: bool) -> Path:
    """Name a file beside the weights: runs/a -> runs/a/model.onnx, net.safetensors -> net.onnx.

    The export of a network with a name goes into the working directory: NAME -> NAME.onnx.
    """
    path = network.path
    stem = path / "model" if path.is_dir() else path.with_suffix("")
    if network.name:
        stem = Path(network.short_name)
    return stem.with_name(f"{stem.name}{'-int8' if int8 else ''}{suffix}")


def input_size_advice(recipe: Recipe) -> str:
    """Say at which size a program should feed images, so that they look as in training."""
    if recipe.eval.relative_to == "original":
        return "Feed images at their own size: the recipe's protocol does not scale them."
    side = "short" if recipe.eval.relative_to == "short_side" else "long"
    return (
        f"Feed images scaled to a {side} side of {recipe.data.base_size} pixels, as the recipe's "
        "protocol does: the graph takes any size, but the network learned objects of that scale."
    )
