"""Export a trained network to one file, and check the file against the network.

The network is traced once and written in a format of FORMATS. The runtime of that format opens
the file and runs it on real images of several sizes. If it disagrees with the network, that is an
error.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from reconet.errors import ExportError, pick
from reconet.export.compare import Difference, compare_with_network, refuse_differences
from reconet.export.formats import FORMATS, save_openvino, to_onnx
from reconet.export.graph import export_info, trace
from reconet.export.int8 import Attempt, Int8, QuantisedNetwork, quantise_network
from reconet.export.sample_images import SampleImages, images_in_folder, load_samples
from reconet.inference import FoundNetwork, find_network
from reconet.inference.backends import LABELS, LOGITS, open_exported, was_exported
from reconet.inference.probe import remember_export
from reconet.models.trained import TrainedNetwork, load_trained
from reconet.recipes.schema import Recipe
from reconet.system.files import check_output_file, staged_write
from reconet.system.progress import SILENT, Progress

COMPARED_IMAGES = 4


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
    chosen = pick(FORMATS, format, "format")
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
    if int8 is not None:
        found = quantise_network(trained, info, to_onnx(program), int8, root, progress)
        return _write_int8(path, trained, found, progress)
    images = load_samples(recipe, recipe.data.val_split, root, COMPARED_IMAGES)
    write = partial(chosen.write, program, info)
    return _write(path, format, write, trained, images, progress)


def default_path(network: FoundNetwork, suffix: str, int8: bool) -> Path:
    """Name a file beside the weights: runs/a -> runs/a/model.onnx, net.safetensors -> net.onnx.

    The export of a network with a name goes into the working directory: NAME -> NAME.onnx.
    """
    path = network.path
    stem = path / "model" if path.is_dir() else path.with_suffix("")
    if network.name:
        stem = Path(network.short_name)
    return stem.with_name(f"{stem.name}{'-int8' if int8 else ''}{suffix}")


def _write_int8(
    path: Path, trained: TrainedNetwork, found: QuantisedNetwork, progress: Progress
) -> Export:
    write = partial(save_openvino, found.model, found.info)
    images = found.other_images(COMPARED_IMAGES)
    result = _write(path, "openvino", write, trained, images, progress, may_differ=True)
    name = trained.info.recipe.data.name
    return replace(
        result,
        calibrated_on=found.calibrated_on,
        scored_on=found.scored_on,
        tries=found.attempts,
        remark="" if found.scorer else f"mIoU not measured: {name} is not on this machine",
    )


def _write(
    path: Path,
    format: str,
    write: Callable[[Path], None],
    trained: TrainedNetwork,
    images: SampleImages,
    progress: Progress,
    *,
    may_differ: bool = False,
) -> Export:
    """Write and compare an export. One that disagrees does not replace the file before it."""
    with staged_write(path) as temporary:
        progress.status(f"writing {path} ...")
        write(temporary)
        progress.status("comparing with the network ...")
        opened = open_exported(temporary, (LABELS, LOGITS), trusted=True)
        differences = compare_with_network(opened, trained.model, images)
        if not may_differ:
            refuse_differences(path, differences)
    remember_export(path)
    files = {path, path.with_suffix(".bin")} if path.suffix == ".xml" else {path}
    return Export(
        path=path,
        format=format,
        how=opened.how,
        bytes=sum(file.stat().st_size for file in files if file.is_file()),
        feed=input_size_advice(trained.info.recipe),
        images=images.description,
        differences=tuple(differences),
    )


def input_size_advice(recipe: Recipe) -> str:
    """Say at which size a program should feed images, so that they look as in training."""
    if recipe.eval.relative_to == "original":
        return "Feed images at their own size: the recipe's protocol does not scale them."
    side = "short" if recipe.eval.relative_to == "short_side" else "long"
    return (
        f"Feed images scaled to a {side} side of {recipe.data.base_size} pixels, as the recipe's "
        "protocol does: the graph takes any size, but the network learned objects of that scale."
    )
