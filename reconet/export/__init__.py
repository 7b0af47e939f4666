"""A trained network as one file for other programs, checked against the network itself.

export() traces it once, writes it in a format of FORMATS, opens what was written by the runtime of
that format, and compares: on real images, at several sizes. An export that disagrees is an error.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from reconet.errors import ExportError, pick
from reconet.export.check import Difference, check, refuse
from reconet.export.graph import NOT_IN_ONNX, export_info, trace
from reconet.export.images import Images, from_folder, of_recipe
from reconet.export.int8 import Int8, Quantised, Try, quantised
from reconet.export.judge import Counter
from reconet.export.write import FORMATS, as_onnx, save_openvino
from reconet.inference.backends import LABELS, LOGITS, open_file
from reconet.models.trained import TrainedNetwork, load_trained
from reconet.recipes.schema import Recipe
from reconet.system.files import check_file, made_beside

__all__ = ["Export", "Int8", "default_path", "export", "feed"]

CHECKED = 4  # images that every export is tried on
Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Export:
    """What was written, how it differs from its network, and what quantisation cost."""

    path: Path
    format: str
    how: str
    bytes: int  # of its file, or of both
    feed: str  # at which size to show it images
    images: str  # that it was tried on
    differences: tuple[Difference, ...]
    calibrated_on: str = ""
    scored_on: str = ""
    tries: tuple[Try, ...] = ()
    remark: str = ""

    def as_dict(self) -> dict[str, Any]:
        plain = {**vars(self), "path": str(self.path)}
        return plain | {
            "differences": [asdict(one) for one in self.differences],
            "tries": [one.as_dict() for one in self.tries],
        }


def export(
    source: Path,
    *,
    format: str = "onnx",
    out: Path | None = None,
    int8: Int8 | None = None,
    root: Path | None = None,
    tell: Tell = lambda text: None,
    progress: Counter | None = None,
) -> Export:
    """Export the network of a run directory or a .safetensors file; see docs/export.md."""
    chosen = pick(FORMATS, format, "format")
    if int8 is not None and format != "openvino":
        raise ExportError(f"--int8 is made for OpenVINO; got --format {format}.")
    if int8 is not None and int8.calibrate is not None:
        from_folder(int8.calibrate, 1)  # a wrong folder is told at once, not after the tracing
    trained = load_trained(source)
    path = out or default_path(source, chosen.suffix, int8 is not None)
    if path.suffix != chosen.suffix:
        raise ExportError(f"--out of format {format} ends in {chosen.suffix}, got {path}.")
    reason = NOT_IN_ONNX.get(trained.info.recipe.model.context)
    if reason is not None and format != "torch":
        raise ExportError(
            f"{trained.info.recipe.model.context} cannot be written as {format}: {reason}; "
            "--format torch can."
        )
    check_file(path)
    info = export_info(trained)
    tell("tracing ...")
    program = trace(trained.model, output_stride=trained.info.recipe.model.output_stride)
    if int8 is not None:
        found = quantised(trained, info, as_onnx(program), int8, root, tell, progress)
        return _written_int8(path, trained, found, tell)
    images = of_recipe(trained.info.recipe, trained.info.recipe.data.val_split, root, CHECKED)
    return _written(
        path, format, partial(chosen.write, program, info), trained, images, tell, judge=True
    )


def default_path(source: Path, suffix: str, int8: bool) -> Path:
    """Beside the weights: runs/a -> runs/a/model.onnx, net.safetensors -> net.onnx."""
    stem = source / "model" if source.is_dir() else source.with_suffix("")
    return stem.with_name(f"{stem.name}{'-int8' if int8 else ''}{suffix}")


def _written_int8(path: Path, trained: TrainedNetwork, found: Quantised, tell: Tell) -> Export:
    write = partial(save_openvino, found.model, found.info)
    # Other images than those that it was calibrated by, where there are any.
    result = _written(path, "openvino", write, trained, found.others(CHECKED), tell, judge=False)
    name = trained.info.recipe.data.name
    return replace(
        result,
        calibrated_on=found.calibrated_on,
        scored_on=found.scored_on,
        tries=found.tries,
        remark="" if found.judge else f"not judged by mIoU: {name} is not here",
    )


def _written(
    path: Path,
    format: str,
    write: Callable[[Path], None],
    trained: TrainedNetwork,
    images: Images,
    tell: Tell,
    *,
    judge: bool,
) -> Export:
    """Made beside its place and compared there: one that disagrees leaves what was there before."""
    with made_beside(path) as made:
        tell(f"writing {path} ...")
        write(made)
        tell("comparing with the network ...")
        opened = open_file(made, (LABELS, LOGITS), trusted=True)
        found = check(opened, trained.model, images)
        refuse(path, found if judge else [])
    return _result(path, format, opened.how, trained.info.recipe, images, found)


def _result(
    path: Path,
    format: str,
    how: str,
    recipe: Recipe,
    images: Images,
    found: Sequence[Difference],
) -> Export:
    files = {path, path.with_suffix(".bin")} if path.suffix == ".xml" else {path}
    return Export(
        path=path,
        format=format,
        how=how,
        bytes=sum(file.stat().st_size for file in files if file.is_file()),
        feed=feed(recipe),
        images=images.source,
        differences=tuple(found),
    )


def feed(recipe: Recipe) -> str:
    """At which size a program should show its images, so that they look as in training."""
    if recipe.eval.relative_to == "original":
        return "Feed images at their own size: the recipe's protocol does not scale them."
    return (
        f"Feed images scaled to a long side of {recipe.data.base_size} pixels, as the recipe's "
        "protocol does: the graph takes any size, but the network learned objects of that scale."
    )
