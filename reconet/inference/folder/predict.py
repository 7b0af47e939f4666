"""Predict many images into a folder.

A run can be stopped and resumed, and a broken file does not end it. The list of images is cut into
chunks of as many images as the network sees at once, and the chunks are dealt out to the processes
in turn. So one process and several show the network the same batches, and write the same files.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconet.errors import RecipeError, pick
from reconet.inference.by_name import FoundNetwork, find_in_processes
from reconet.inference.fast import find_way, has_fast_packages, is_export, open_way
from reconet.inference.folder.find import find_images
from reconet.inference.folder.output_names import MASK
from reconet.inference.folder.plan import (
    FolderPlan,
    PlannedImage,
    WantedOutputs,
    chunks_of_process,
    make_folder_plan,
)
from reconet.inference.folder.record import journal_path, read_record, source_key, write_record
from reconet.inference.folder.worker import FolderWorker
from reconet.inference.network import Network, open_network, precision_of
from reconet.inference.predictor import Predictor
from reconet.inference.protocol import Protocol
from reconet.recipes.schema import Recipe
from reconet.system.distributed import Processes, join_processes
from reconet.system.files import check_output_folder
from reconet.system.progress import SILENT, Progress
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
    if fast and precision is not None:
        raise RecipeError("--fast chooses the precision by itself: leave out --precision.")
    began = time.perf_counter()
    if prelabels is not None:
        from reconet.data.formats import WRITTEN

        pick(WRITTEN, prelabels, "format of --as")
    wanted = WantedOutputs(overlay=overlay, probabilities=probabilities)
    with join_processes(device) as processes:
        found = find_images(arguments) if processes.is_first else None
        network = find_in_processes(source, processes, progress)
        folder = Path(os.path.abspath(out or default_out(network, fast)))
        if processes.is_first:
            check_output_folder(folder)
        if fast:
            images = found.paths if found is not None else []
            opened_network = _open_fast(network.path, processes, images, progress)
        else:
            opened_network = _open_network(network.path, processes, precision)
        predictor = _make_predictor(opened_network, processes, change, memory)
        opened = time.perf_counter()
        plan = None
        if found is not None:
            plan = make_folder_plan(found, folder, network, predictor, wanted, overwrite)
        plan = processes.broadcast(plan)
        chunks = chunks_of_process(plan, processes, predictor.protocol.batch)
        progress = progress if processes.is_first else SILENT
        if not fast:
            _suggest_fast(network.path, processes, chunks, progress)
        progress.start(sum(map(len, chunks)), "predict")
        worker = FolderWorker(plan, predictor, wanted, processes.rank, progress)
        own = [result for chunk in chunks for result in worker.predict(chunk)]
        results = dict(result for part in processes.gather(own) for result in part)
        if found is None:  # another process tells
            return None
        seconds = {"open": opened - began, "segment": time.perf_counter() - opened}
        result = _finish(plan, predictor, results, processes.size, found.untried, seconds)
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


def _open_network(source: Path, processes: Processes, precision: str | None) -> Network:
    """Open the same network on every process. The first one decides what `auto` means."""
    network = open_network(source, processes.device, precision) if processes.is_first else None
    decided = processes.broadcast(precision_of(network) if network else None)
    return network or open_network(source, processes.device, decided)


def _open_fast(
    source: Path, processes: Processes, images: Sequence[Path], progress: Progress
) -> Network:
    """Open the same network on every process. The first one finds the fastest way."""
    way = processes.run_on_first(lambda: find_way(source, processes.device, images, progress))
    progress = progress if processes.is_first else SILENT
    return open_way(way, source, processes.device, progress)


def _suggest_fast(
    source: Path, processes: Processes, chunks: list[list[PlannedImage]], progress: Progress
) -> None:
    """Note that --fast exists, where many images would gain by it."""
    count = sum(map(len, chunks)) * processes.size
    gains = processes.device.type == "cpu" and not is_export(source) and has_fast_packages()
    if processes.is_first and count >= MANY_IMAGES and gains:
        progress.note(f"{count} images: --fast may take a fraction of the time (docs/predict.md).")


def _make_predictor(
    network: Network,
    processes: Processes,
    change: Callable[[Recipe], Recipe],
    memory: int | None,
) -> Predictor:
    recipe = change(network.info.recipe)
    protocol = Protocol.of(recipe.eval, recipe.data)
    if memory is not None:
        protocol = replace(protocol, budget_bytes=memory)
    return Predictor(network, protocol=protocol, device=str(processes.device))


def _finish(
    plan: FolderPlan,
    predictor: Predictor,
    results: dict[Path, dict[str, Any]],
    processes: int,
    untried: dict[str, int],
    seconds: dict[str, float],
) -> FolderResult:
    """Turn the journals into the record, and add the images that were done before."""
    journals = [journal_path(plan.out, plan.token, rank) for rank in range(processes)]
    write_record(plan.out, read_record(plan.out), journals)
    images = []
    for path, _ in plan.images:
        entry = plan.done.get(source_key(path, plan.out))
        result = results.get(path) or {"status": "skipped", **(entry.summary() if entry else {})}
        images.append({"source": str(path), **result})
    return FolderResult(
        out=plan.out,
        network=plan.network,
        how=predictor.network.how,
        protocol=str(predictor.protocol),
        images=images,
        untried=untried,
        seconds=seconds,
    )


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
