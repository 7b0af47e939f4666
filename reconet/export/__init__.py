"""A trained network as one file for other programs, checked against the network itself.

export() traces it once, writes it in a format of FORMATS, opens what was written by the runtime of
that format, and compares: on real pictures, at several sizes. An export that disagrees is an error.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from reconet.data import open_split
from reconet.data.dataset import Dataset, has_labels
from reconet.errors import DataError, ExportError, ReconetError, pick
from reconet.evaluate import OnPicture, confusion_of
from reconet.export.check import Difference, check
from reconet.export.graph import NOT_IN_ONNX, about_of, trace
from reconet.export.int8 import Try, calibration, quantise, search
from reconet.export.pictures import Pictures, from_dataset, from_folder, of_recipe, readable
from reconet.export.write import FORMATS, as_onnx, save_openvino
from reconet.figures import benchmark_scores
from reconet.inference import Forward
from reconet.models.trained import Trained, load_trained
from reconet.protocol import Protocol
from reconet.recipe import Recipe
from reconet.runtime import in_use
from reconet.runtimes import open_file
from reconet.runtimes.about import About
from reconet.world import World, pick_device

CHECKED = 4  # pictures that every export is tried on
Tell = Callable[[str], None]
Counter = Callable[[int], OnPicture]


@dataclass(frozen=True, kw_only=True)
class Int8:
    """How to quantise."""

    calibrate: Path | None = None  # a folder of pictures; by default the training pictures
    pictures: int = 64  # to calibrate by
    split: str | None = None  # to score on; by default the recipe's validation split
    score_on: int | None = None  # pictures of it; by default all
    max_loss: float = 0.5  # points of mIoU


@dataclass(frozen=True, kw_only=True)
class Export:
    """What was written, how it differs from its network, and what quantisation cost."""

    path: Path
    format: str
    how: str
    bytes: int  # of its file, or of both
    feed: str  # at which size to show it pictures
    pictures: str  # that it was tried on
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
    reason = NOT_IN_ONNX.get(trained.recipe.model.context)
    if reason is not None and format != "torch":
        raise ExportError(
            f"{trained.recipe.model.context} cannot be written as {format}: {reason}; "
            "--format torch can."
        )
    about = about_of(trained)
    tell("tracing ...")
    program = trace(trained.model, output_stride=trained.recipe.model.output_stride)
    if int8 is not None:
        return _export_int8(trained, about, as_onnx(program), path, int8, root, tell, progress)
    tell(f"writing {path} ...")
    chosen.write(program, about, path)
    tell("comparing with the network ...")
    pictures = of_recipe(trained.recipe, trained.recipe.data.val_split, root, CHECKED)
    found = _checked(path, trained, pictures, judge=True)
    how = open_file(path, trusted=True).how
    return _result(path, format, how, trained.recipe, pictures, found)


def default_path(source: Path, suffix: str, int8: bool) -> Path:
    """Beside the weights: runs/a -> runs/a/model.onnx, net.safetensors -> net.onnx."""
    stem = source / "model" if source.is_dir() else source.with_suffix("")
    return stem.with_name(f"{stem.name}{'-int8' if int8 else ''}{suffix}")


def _export_int8(
    trained: Trained,
    about: About,
    proto: Any,
    path: Path,
    options: Int8,
    root: Path | None,
    tell: Tell,
    progress: Counter | None,
) -> Export:
    recipe = trained.recipe
    if options.calibrate is not None:
        pictures = readable(from_folder(options.calibrate, options.pictures), tell)
    else:
        pictures = of_recipe(recipe, recipe.data.train_split, root, options.pictures)
    windows = list(calibration(pictures, Protocol.of(recipe.eval, recipe.data)))
    judge = _judge(trained, options, root, progress)
    tell("scoring the network as it is ...")
    before = judge.score(in_use(trained.model, judge.world.device)) if judge else None

    def make(kept: tuple[str, ...]) -> Any:
        rest = f", all but {', '.join(kept)}" if kept else ""
        tell(f"quantising by {pictures.source}{rest} ...")
        return quantise(proto, windows, kept)

    def score(model: Any) -> float | None:
        return None if judge is None else judge.score_of(model, replace(about, precision="int8"))

    model, tries = search(make, score, before, options.max_loss)
    if tries[-1].loss > options.max_loss:
        losses = ", ".join(f"{one.loss:.2f}" for one in tries)
        raise ExportError(
            f"int8 loses more than {options.max_loss:g} points of mIoU in every try ({losses}); "
            "calibrate by more pictures, or allow more with --max-loss."
        )
    facts = tries[-1].as_dict() | {
        "calibrated_on": pictures.source,
        "scored_on": judge.what if judge else "",
    }
    about = replace(about, precision="int8", int8=facts)
    tell(f"writing {path} ...")
    save_openvino(model, about, path)
    # Other pictures than those that it was calibrated by, where there are any.
    others = from_dataset(judge.dataset, CHECKED) if judge else pictures
    found = _checked(path, trained, others, judge=False)
    return replace(
        _result(path, "openvino", "OpenVINO int8", trained.recipe, others, found),
        calibrated_on=pictures.source,
        scored_on=judge.what if judge else "",
        tries=tuple(tries),
        remark="" if judge else f"not judged by mIoU: {recipe.data.name} is not here",
    )


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Scores networks on some pictures of a split."""

    trained: Trained
    dataset: Dataset
    world: World
    progress: Counter | None

    @property
    def what(self) -> str:
        return f"{len(self.dataset)} pictures of {self.dataset.info.name} {self.dataset.split}"

    def score(self, forward: Forward) -> float:
        """mIoU by the recipe's protocol."""
        recipe, classes = self.trained.recipe, self.trained.classes
        count_kk = confusion_of(
            forward,
            len(classes),
            self.dataset,
            self.world,
            protocol=Protocol.of(recipe.eval, recipe.data),
            on_picture=self.progress(len(self.dataset)) if self.progress else None,
        )
        if not count_kk.sum():
            raise DataError(f"{self.what} have no labelled pixel to score against.")
        return benchmark_scores(count_kk, recipe.data.name, classes).mean_iou.item()

    def score_of(self, model: Any, about: About) -> float:
        """Of an openvino.Model, by way of a file, as its users will open it."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.xml"
            save_openvino(model, about, path)
            opened = open_file(path)
            return self.score(lambda image_bchw: opened(image_bchw)[0])


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some pictures of a dataset, spread over it."""

    whole: Dataset
    indices: Sequence[int]

    @property
    def info(self) -> Any:
        return self.whole.info

    @property
    def split(self) -> str:
        return self.whole.split

    def __len__(self) -> int:
        return len(self.indices)

    def name(self, index: int) -> str:
        return self.whole.name(self.indices[index])

    def __getitem__(self, index: int) -> Any:
        return self.whole[self.indices[index]]


def _judge(
    trained: Trained, options: Int8, root: Path | None, progress: Counter | None
) -> Judge | None:
    """None where the dataset is not here; but where the user says that it is, it must be."""
    data = trained.recipe.data
    split = options.split or data.val_split
    try:
        dataset = open_split(data, split, root)
    except ReconetError:
        if root is not None or options.split is not None:
            raise
        return None
    if not has_labels(dataset):
        raise DataError(f"{data.name} {split} has no labels to score against; name another split.")
    if options.score_on is not None and options.score_on < len(dataset):
        step = len(dataset) / options.score_on
        indices = [int(number * step) for number in range(options.score_on)]
        dataset = Part(whole=dataset, indices=indices)
    world = World(rank=0, size=1, device=pick_device("cpu"))
    return Judge(trained=trained, dataset=dataset, world=world, progress=progress)


def _checked(path: Path, trained: Trained, pictures: Pictures, *, judge: bool) -> list[Difference]:
    """An export that disagrees does not stay."""
    try:
        return check(path, trained.model, pictures, judge=judge)
    except ExportError:
        path.unlink()
        path.with_suffix(".bin").unlink(missing_ok=True)
        raise


def _result(
    path: Path,
    format: str,
    how: str,
    recipe: Recipe,
    pictures: Pictures,
    found: Sequence[Difference],
) -> Export:
    files = {path, path.with_suffix(".bin")} if path.suffix == ".xml" else {path}
    return Export(
        path=path,
        format=format,
        how=how,
        bytes=sum(file.stat().st_size for file in files if file.is_file()),
        feed=feed(recipe),
        pictures=pictures.source,
        differences=tuple(found),
    )


def feed(recipe: Recipe) -> str:
    """At which size a program should show its pictures, so that they look as in training."""
    if recipe.eval.relative_to == "original":
        return "Feed pictures at their own size: the recipe's protocol does not scale them."
    return (
        f"Feed pictures scaled to a long side of {recipe.data.base_size} pixels, as the recipe's "
        "protocol does: the graph takes any size, but the network learned objects of that scale."
    )
