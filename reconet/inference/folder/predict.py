"""Predict many images into a folder.

A run can be stopped and resumed, and a broken file does not end it. The list of images is cut into
chunks of as many images as the network sees at once, and the chunks are dealt out to the processes
in turn. So one process and several show the network the same batches, and write the same files.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconet.errors import RecipeError, pick
from reconet.inference.by_name import FoundNetwork, find_in_processes
from reconet.inference.folder.find import find_images
from reconet.inference.folder.record import MASK, PlannedImage, make_plan, sort_record
from reconet.inference.folder.worker import predict_own
from reconet.inference.network import Network, is_export, open_network, precision_of
from reconet.inference.predictor import Predictor
from reconet.inference.probe import hash_export
from reconet.inference.protocol import Protocol
from reconet.recipes.schema import Recipe
from reconet.system.distributed import Processes, join_processes
from reconet.system.files import check_output_folder
from reconet.system.progress import SILENT, Progress
from reconet.system.run_files import BEST
from reconet.system.user_cache import FAST

if TYPE_CHECKING:
    from reconet.data.formats import WrittenLabels

FOLDER = "predictions"  # in a run directory, by default
MANY_IMAGES = 100  # so many that it pays to look for the fastest way


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
    prelabels: "WrittenLabels | None" = None  # if they were asked for

    def having(self, status: str) -> list[dict[str, Any]]:
        """Return the images with a status: done, skipped or failed."""
        return [image for image in self.images if image["status"] == status]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        counts = {status: len(self.having(status)) for status in ("done", "skipped", "failed")}
        values = {k: v for k, v in vars(self).items() if k not in ("out", "prelabels")}
        written = {"prelabels": self.prelabels.as_dict()} if self.prelabels else {}
        return {"format": 1, "out": str(self.out), **counts, **values, **written}


def predict_folder(
    source: str | Path,
    arguments: list[str],
    out: Path | None = None,
    *,
    overlay: bool = True,
    probabilities: bool = False,
    prelabels: str | None = None,
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
    paths. `prelabels` is a format of WRITTEN that the labels are written in too. `change` may
    change the recipe, and with it how images are shown. `memory` is the budget for that in bytes.
    `fast` takes the fastest way that keeps the labels. With several processes only the first one
    gets a result and reports progress.
    """
    began = time.perf_counter()
    _check_options(precision, fast, prelabels)
    kinds = ("labels", *["overlay"] * overlay, *["probabilities"] * probabilities)
    with join_processes(device) as processes:
        progress = progress if processes.is_first else SILENT
        found = find_images(arguments) if processes.is_first else None
        paths = found.paths if found is not None else []
        network = find_in_processes(source, processes, progress)
        folder = Path(os.path.abspath(out or default_out(network, fast)))
        if processes.is_first:
            check_output_folder(folder)
        opened = _open(network.path, processes, precision, fast, paths, progress)
        recipe = change(opened.info.recipe)
        protocol = Protocol.of(recipe.eval, recipe.data)
        if memory is not None:
            protocol = replace(protocol, budget_bytes=memory)
        predictor = Predictor(opened, protocol=protocol, device=str(processes.device))
        seconds = {"open": time.perf_counter() - began}
        plan = None
        if found is not None:
            run = _hash_run(network.path, predictor)
            plan = make_plan(paths, found.root, folder, run, str(network), kinds, overwrite)
        plan = processes.broadcast(plan)
        if not fast:
            _suggest_fast(network.path, processes, plan.images, progress)
        own = predict_own(plan, processes, predictor, kinds, progress)
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
            images=[{"source": str(path), **results[path]} for path in paths],
            untried=found.untried,
            seconds=seconds,
        )
        if prelabels is None:
            return result
        return _with_prelabels(result, prelabels, found.root, predictor, progress)


def default_out(network: FoundNetwork, fast: bool = False) -> Path:
    """Return the folder where predictions go by default.

    The labels of an export differ a little, so it has a folder of its own. So does --fast.
    """
    if is_export(network.path):
        return network.home(f"{FOLDER}-{network.path.name}")
    return network.home(f"{FOLDER}-{FAST}" if fast else FOLDER)


def _check_options(precision: str | None, fast: bool, prelabels: str | None) -> None:
    if fast and precision is not None:
        raise RecipeError("--fast chooses the precision by itself: leave out --precision.")
    if prelabels is not None:
        from reconet.data.formats import WRITTEN

        pick(WRITTEN, prelabels, "format of --as")


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
    decided = processes.broadcast(precision_of(network) if network else None)
    return network or open_network(source, device, decided)


def _suggest_fast(
    source: Path, processes: Processes, images: Sequence[PlannedImage], progress: Progress
) -> None:
    """Note that --fast exists, where many images would gain by it."""
    count = sum(not image.is_done for image in images)
    if count < MANY_IMAGES or processes.device.type != "cpu" or is_export(source):
        return
    from reconet.inference.fast import has_fast_packages

    if has_fast_packages():
        progress.note(f"{count} images: --fast may take a fraction of the time (docs/predict.md).")


def _hash_run(source: Path, predictor: Predictor) -> str:
    """Hash a network and its settings: how images are shown, and how it runs if not in fp32.

    --memory is left out: it belongs to the machine, which may have more or less of it now.
    """
    how = predictor.network.how
    is_plain = is_export(source) or how.startswith("torch fp32")
    protocol = replace(predictor.protocol, budget_bytes=Protocol.budget_bytes)
    settings = str(protocol) if is_plain else f"{protocol}; {how}"
    network = hash_export(source / BEST if source.is_dir() else source, digest_bytes=8)
    return f"{network}-{blake2b(settings.encode(), digest_size=4).hexdigest()}"


def _with_prelabels(
    result: FolderResult, format_name: str, root: Path, predictor: Predictor, progress: Progress
) -> FolderResult:
    """Write the masks of all images in another format too. Those that were there before count."""
    from reconet.data.formats import WRITTEN, PredictedImage, write_files

    images = [
        PredictedImage(
            name=Path(os.path.relpath(image["source"], root)).as_posix(),
            path=Path(image["source"]),
            stem=image["outputs"]["labels"].removesuffix(MASK),
            mask=result.out / image["outputs"]["labels"],
        )
        for image in result.images
        if "labels" in image.get("outputs", {})
    ]
    info = predictor.network.info
    written = write_files(
        format_name, WRITTEN[format_name], result.out, images, info.classes, info.palette, progress
    )
    return replace(result, prelabels=written)
