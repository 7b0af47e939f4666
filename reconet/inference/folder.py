"""Predict many images into a folder. A run can be stopped and resumed.

An image images/sub/street.jpg of the folder `images` becomes, in the output folder,

    sub/street.png            the mask: palette and class numbers
    sub/street.overlay.jpg    the image, tinted (.png if it is too long for a JPEG)
    sub/street.npz            the probabilities
    sub/street.confidence.png the confidence of each label, in 255ths

If another image has that name, or a file that we did not write, the suffix stays: street.jpg.png.
If that is taken too, street.jpg~2.png, and so on. Names of a former run do not change.

plan.py remembers which images are done. The list of images is cut into chunks of as many images
as the network sees at once, and the chunks are dealt out to the processes in turn. So one process
and several show the network the same batches, and write the same files.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
from numpy.lib import format as npy
from PIL import Image as Pillow

from reconet.data.classes import photograph_palette
from reconet.data.images.draw import write_mask
from reconet.data.images.read import read_upright
from reconet.errors import DataError, OutputError, RecipeError, ReconetError, is_out_of_memory
from reconet.inference.network import (
    FoundNetwork,
    Network,
    find_in_processes,
    hash_files,
    is_export,
    open_network,
)
from reconet.inference.plan import (
    ENDINGS,
    LONG_OVERLAY,
    RECORD,
    Entry,
    Job,
    find_images,
    plan_jobs,
    possible_files,
    sort_record,
)
from reconet.inference.predictor import Prediction, Predictor
from reconet.inference.protocol import Protocol
from reconet.recipes.schema import Recipe
from reconet.system.distributed import Processes, join_processes
from reconet.system.files import append_text, check_output_folder, write_atomic
from reconet.system.progress import SILENT, Progress
from reconet.system.run_files import BEST
from reconet.system.user_cache import FAST
from reconet.types import Colour, Image

if TYPE_CHECKING:
    from reconet.data.formats import WrittenLabels

FOLDER = "predictions"  # in a run directory, by default
MANY_IMAGES = 100  # so many that it pays to look for the fastest way
JPEG_LONGEST = 65_500  # pixels of a side
QUALITY = 90

Results = dict[Path, dict[str, Any]]  # what became of each image
ReadImage = tuple[Job, Entry, Image]


@dataclass(frozen=True, kw_only=True)
class FolderResult:
    """What became of every image, in the order in which they were found."""

    out: Path
    network: str
    how: str
    protocol: str
    images: list[dict[str, Any]]  # source, status, and more
    untried: dict[str, int]  # other files in the folders: how many of each suffix
    seconds: dict[str, float]  # of the parts of the work
    colours: dict[str, Colour]  # of all classes, in overlays
    prelabels: "WrittenLabels | None" = None  # if they were asked for

    def having(self, status: str) -> list[dict[str, Any]]:
        """Return the images with a status: done, skipped or failed."""
        return [image for image in self.images if image["status"] == status]

    def classes(self) -> dict[str, tuple[float, int]]:
        """Return the part of all pixels that each class covers and in how many images it is.

        The largest comes first.
        """
        pixels, images = Counter[str](), Counter[str]()
        seen = [image for image in self.images if "shares" in image]
        for image in seen:
            images.update(image["shares"].keys())
            for name, share in image["shares"].items():
                pixels[name] += share * image["width"] * image["height"]
        total = sum(image["width"] * image["height"] for image in seen)
        return {name: (count / total, images[name]) for name, count in pixels.most_common()}

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        found = {
            n: {"share": share, "images": images} for n, (share, images) in self.classes().items()
        }
        counts = {status: len(self.having(status)) for status in ("done", "skipped", "failed")}
        values = {k: v for k, v in vars(self).items() if k not in ("out", "prelabels", "colours")}
        written = {"prelabels": self.prelabels.as_dict()} if self.prelabels else {}
        return {"format": 1, "out": str(self.out), **counts, "classes": found, **values, **written}


def predict_folder(
    source: str | Path,
    arguments: list[str],
    out: Path | None = None,
    *,
    overlay: bool = True,
    probabilities: bool = False,
    confidence: bool = False,
    prelabels: str | None = None,
    tolerance: float = 0,
    classes: Sequence[str] = (),
    change: Callable[[Recipe], Recipe] = lambda recipe: recipe,
    memory: int | None = None,
    device: str = "auto",
    precision: str | None = None,
    fast: bool = False,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> FolderResult | None:
    """Predict all images that the arguments name, and write their files.

    `source` is a path or name of a network. The arguments are files, folders, globs, or @lists of
    paths. `prelabels` is a format of WRITTEN that the labels are written in too, with outlines
    simplified by `tolerance` pixels. `classes` are the only ones to keep, by default all. `change`
    may change the recipe, and with it how images are shown, and `memory` is a budget of bytes for
    it. `fast` takes the fastest way that keeps the labels. The first process has the result.
    """
    began = time.perf_counter()
    if fast and precision is not None:
        raise RecipeError("--fast chooses the precision by itself: leave out --precision.")
    if prelabels is not None:
        from reconet.data.formats import check_written

        check_written(prelabels, tolerance)
    wanted = {"overlay": overlay, "probabilities": probabilities, "confidence": confidence}
    kinds = ("labels", *(kind for kind, given in wanted.items() if given))
    with join_processes(device) as processes:
        progress = progress if processes.is_first else SILENT
        found = find_images(arguments) if processes.is_first else None
        network = find_in_processes(source, processes, progress)
        folder = Path(os.path.abspath(out or default_out(network, fast)))
        if processes.is_first:
            check_output_folder(folder)
        opened = _open(
            network.path, processes, precision, fast, found.paths if found else [], progress
        )
        recipe = change(opened.info.recipe)
        protocol = Protocol.of(recipe.eval, recipe.data)
        run = _hash_run(network.path, opened, protocol, classes)
        if memory is not None:
            protocol = replace(protocol, budget_bytes=memory)
        predictor = Predictor(opened, protocol=protocol, device=str(processes.device))
        if classes:
            predictor.keep_classes(classes)
        seconds = {"open": time.perf_counter() - began}
        jobs: list[Job] = []
        if found is not None:
            jobs = plan_jobs(found.paths, found.root, folder, run, kinds, overwrite)
            todo = sum(not job.is_done for job in jobs)
            if todo >= MANY_IMAGES and not fast and opened.model and processes.device.type == "cpu":
                from reconet.inference.fast import has_fast_packages

                if has_fast_packages():
                    progress.note(f"{todo} images: --fast may take a fraction of the time.")
        jobs = processes.broadcast(jobs)
        own = predict_own(
            jobs, processes, predictor, folder, run, str(network), kinds, progress=progress
        )
        results = {path: one for part in processes.gather(own) for path, one in part.items()}
        if found is None:  # another process tells
            return None
        sort_record(folder)
        seconds["segment"] = time.perf_counter() - began - seconds["open"]
        result = FolderResult(
            out=folder,
            network=str(network),
            how=opened.how,
            protocol=str(protocol),
            images=[{"source": str(path), **results[path]} for path in found.paths],
            untried=found.untried,
            seconds=seconds,
            colours=dict(
                zip(opened.info.classes, photograph_palette(opened.info.palette), strict=True)
            ),
        )
        if prelabels is None:
            return result
        return _with_prelabels(result, prelabels, tolerance, found.root, predictor, progress)


def default_out(network: FoundNetwork, fast: bool = False) -> Path:
    """Return the folder where predictions go by default.

    The labels of an export differ a little, so it has a folder of its own. So does --fast.
    """
    if is_export(network.path):
        return network.home(f"{FOLDER}-{network.path.name}")
    return network.home(f"{FOLDER}-{FAST}" if fast else FOLDER)


def _open(
    source: Path,
    processes: Processes,
    precision: str | None,
    fast: bool,
    images: Sequence[Path],
    progress: Progress,
) -> Network:
    """Open the same network on every process. The first one decides how it runs."""
    device = processes.device
    if fast:
        from reconet.inference.fast import find_way, open_way

        way = processes.run_on_first(lambda: find_way(source, device, images, progress))
        return open_way(way, source, device, progress)
    network = open_network(source, device, precision) if processes.is_first else None
    decided = processes.broadcast(network and network.precision)
    return network or open_network(source, device, decided)


def _hash_run(source: Path, network: Network, protocol: Protocol, classes: Sequence[str]) -> str:
    """Hash a network and its settings: how images are shown, and how it runs if not in fp32.

    --memory is left out: it belongs to the machine, which may have more or less of it now.
    Folders of 0.1 have the hash of these sentences, so they stay.
    """
    plain = is_export(source) or network.precision == "fp32"
    settings = str(protocol) if plain else f"{protocol}; {network.how}"
    settings += f"; only {sorted(set(classes))}" if classes else ""
    digest = hash_files(source / BEST if source.is_dir() else source, digest_bytes=8)
    return f"{digest}-{blake2b(settings.encode(), digest_size=4).hexdigest()}"


def predict_own(
    jobs: Sequence[Job],
    processes: Processes,
    predictor: Predictor,
    out: Path,
    run: str,
    network: str,
    kinds: Sequence[str],
    *,
    progress: Progress,
) -> Results:
    """Predict the images of this process. Tell what became of each, also of those done before.

    Chunks are cut before the images that are done are left out. So one process and several show
    the network the same batches. Small images of one size go through it together.
    """
    size = predictor.protocol.batch
    starts = range(size * processes.rank, len(jobs), size * processes.size)
    chunks = [jobs[start : start + size] for start in starts]
    results: Results = {
        job.path: {"status": "skipped", **job.entry.summary()}
        for chunk in chunks
        for job in chunk
        if job.is_done
    }
    progress.start(sum(map(len, chunks)) - len(results), "predict")
    for chunk in chunks:
        todo = [job for job in chunk if not job.is_done]
        for images in _read_images(todo, predictor, kinds, results, progress):
            batches = [images]
            while batches:
                batch = batches.pop()
                try:
                    predictions = predictor(
                        [image_hwc for *_, image_hwc in batch],
                        with_probabilities="probabilities" in kinds,
                        with_confidence="confidence" in kinds,
                    )
                except (ReconetError, MemoryError, RuntimeError) as error:
                    if isinstance(error, RuntimeError) and not is_out_of_memory(error):
                        raise  # a bug
                    if len(batch) > 1:  # find out which image it was
                        batches += [[one] for one in reversed(batch)]
                    else:
                        results[batch[0][0].path] = _failure(error)
                        progress.advance()
                    continue
                for (job, entry, _), prediction in zip(batch, predictions, strict=True):
                    entry = replace(
                        entry,
                        run=run,
                        network=network,
                        shares=prediction.shares(),
                        confidence=prediction.confidence(),
                    )
                    try:
                        _write_files(out, job.entry, entry, prediction)
                        results[job.path] = {"status": "done", **entry.summary()}
                    except (ReconetError, OSError, MemoryError) as error:
                        results[job.path] = _failure(error)
                    progress.advance()
                batch.clear()  # nothing of a large image stays while the next one is read
                del predictions, prediction
    return results


def _read_images(
    jobs: Sequence[Job],
    predictor: Predictor,
    kinds: Sequence[str],
    results: Results,
    progress: Progress,
) -> Iterator[list[ReadImage]]:
    """Read a chunk of images, and yield those that are predicted together.

    A large image comes as soon as it is read, so that no other waits in memory with it.
    """
    budget, waiting = predictor.protocol.budget_bytes, list[ReadImage]()
    for job in jobs:
        try:
            if job.path.is_dir():
                raise DataError(f"cannot read {job.path}: the folder cannot be listed.")
            version = job.version()
            image_hwc, frames = read_upright(job.path)
            height, width = image_hwc.shape[:2]
            needed = 6 * len(predictor.classes) * height * width  # in single and half precision
            if "probabilities" in kinds and needed > budget:
                raise DataError(
                    f"its probabilities need {needed / 2**30:.1f} GiB, and --memory gives "
                    f"{budget / 2**30:.1f}; give more, or leave out --probabilities."
                )
        except (ReconetError, OSError, MemoryError) as error:
            results[job.path] = _failure(error)
            progress.advance()
            continue
        endings = dict(ENDINGS)
        if max(height, width) > JPEG_LONGEST:
            endings["overlay"] = LONG_OVERLAY
        entry = replace(
            job.entry,
            bytes=version[0],
            mtime_ns=version[1],
            outputs={kind: job.entry.stem + endings[kind] for kind in kinds},
            width=width,
            height=height,
            note=f"has {frames} frames or pages; only the first is used" if frames > 1 else "",
        )
        if predictor.images_at_once((height, width)) == 1:
            yield [(job, entry, image_hwc)]
        else:
            waiting.append((job, entry, image_hwc))
        del image_hwc
    if waiting:
        yield waiting


def _write_files(out: Path, former: Entry, entry: Entry, prediction: Prediction) -> None:
    """Remove the files of a former run, append the line of the image, write its files."""
    stale = possible_files(former.stem).intersection(former.outputs.values())
    for name in stale | set(entry.outputs.values()):
        path = out / name
        if path.is_symlink() or not path.resolve().is_relative_to(out.resolve()):
            raise OutputError(f"cannot write {path}: a link leads out of {out}.")
        path.unlink(missing_ok=True)
    append_text(out / RECORD, entry.line())
    for kind, name in entry.outputs.items():
        WRITERS[kind](out / name, prediction)


def _failure(error: BaseException) -> dict[str, Any]:
    full = "there is not enough memory for it."
    reason = full if is_out_of_memory(error) else str(error) or type(error).__name__
    return {"status": "failed", "error": reason}


def _write_overlay(path: Path, prediction: Prediction) -> None:
    image, kind = prediction.overlay(), "JPEG" if path.suffix == ".jpg" else "PNG"
    write_atomic(path, lambda file: image.save(file, kind, quality=QUALITY))


def _write_confidence(path: Path, prediction: Prediction) -> None:
    assert prediction.confidence_hw is not None
    image = Pillow.fromarray(prediction.confidence_hw)
    write_atomic(path, lambda file: image.save(file, "PNG"))


def _write_probabilities(path: Path, prediction: Prediction) -> None:
    """Write probability_khw in half precision, and the names of the classes, for numpy.load."""
    assert prediction.probability_khw is not None
    arrays = {
        "probability_khw": prediction.probability_khw.astype("<f2"),
        "classes": np.array(prediction.classes),
    }

    def write(file: BinaryIO) -> None:  # numpy.savez_compressed takes several times as long
        with ZipFile(file, "w", ZIP_DEFLATED, compresslevel=1) as archive:
            for name, values in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    npy.write_array(member, values, allow_pickle=False)

    write_atomic(path, write)


WRITERS: dict[str, Callable[[Path, Prediction], None]] = {
    "labels": lambda path, one: write_mask(path, one.label_hw, one.palette),
    "overlay": _write_overlay,
    "probabilities": _write_probabilities,
    "confidence": _write_confidence,
}


def _with_prelabels(
    result: FolderResult,
    form: str,
    tolerance: float,
    root: Path,
    own: Predictor,
    progress: Progress,
) -> FolderResult:
    """Write the masks of all images in another format too. Those that were there before count."""
    from reconet.data.formats import WRITTEN, PredictedImage, write_files

    images = [
        PredictedImage(
            name=Path(os.path.relpath(image["source"], root)).as_posix(),
            path=Path(image["source"]),
            stem=image["outputs"]["labels"].removesuffix(ENDINGS["labels"]),
            mask=result.out / image["outputs"]["labels"],
            tolerance=tolerance,
        )
        for image in result.images
        if "labels" in image.get("outputs", {})
    ]
    info = own.network.info
    written = write_files(
        form, WRITTEN[form], result.out, images, info.classes, info.palette, progress
    )
    return replace(result, prelabels=written)
