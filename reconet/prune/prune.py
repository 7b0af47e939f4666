"""Prune a run: calibrate, keep the ranks that matter, score, measure and save."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from reconet.data import open_split
from reconet.data.dataset import Dataset, evenly_spaced
from reconet.errors import DataError, OutputError, RecipeError
from reconet.evaluation import check_classes, count_confusion
from reconet.evaluation.benchmarks import named_scores
from reconet.inference import FoundNetwork, find_network
from reconet.inference.network import make_forward
from reconet.inference.protocol import Protocol
from reconet.inference.windows import whole_image
from reconet.models.decompose import low_rank_core
from reconet.models.trained import TrainedNetwork, find_weights, load_trained, save_trained
from reconet.prune.measure import NetworkMeasurement, measure
from reconet.prune.ranks import best_ranks, keep_ranks, rank_importance
from reconet.recipes import read_recipe, write_recipe
from reconet.system.distributed import Processes, pick_device
from reconet.system.files import check_output_folder
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted
from reconet.system.run_files import BEST, LAST, LOG, RECIPE


@dataclass(frozen=True, kw_only=True)
class PruneResult:
    """The pruned networks beside the one before, and how their ranks were chosen."""

    dataset: str
    calibrated_on: str
    images: int
    protocol: str
    importance: tuple[float, ...]
    kept: dict[int, tuple[int, ...]]  # new rank -> numbers of the old ranks
    directories: tuple[str, ...]
    networks: tuple[NetworkMeasurement, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def prune_run(
    source: str | Path,
    ranks: Sequence[int],
    *,
    split: str | None = None,
    images: int = 64,
    out: Path | None = None,
    root: Path | None = None,
    device: str = "auto",
    progress: Progress = SILENT,
) -> PruneResult:
    """Prune a network to each of `ranks`, and write a run directory for each.

    `source` is its path or name.
    """
    found = find_network(source, progress=progress)
    before = load_trained(found.path)
    processes = Processes.single(pick_device(device))
    before.model.to(processes.device)
    directories = _output_directories(found, before, ranks, out)
    data = before.info.recipe.data
    scored = _open(before, data.val_split, root, found)
    calibration = _open(before, split or data.train_split, root, found)
    chosen = evenly_spaced(len(calibration), images)
    progress.start(len(chosen), "calibrate")
    importance_r = rank_importance(
        before.model, _images(calibration, chosen, before, processes, progress)
    )
    kept = {rank: best_ranks(importance_r, rank) for rank in ranks}
    networks = {"before": before} | {f"rank {r}": keep_ranks(before, kept[r]) for r in ranks}
    protocol = Protocol.of(before.info.recipe.eval, data)
    for name, network in networks.items():
        progress.start(len(scored), f"score {name}")
        score = _score(network, scored, processes, protocol, progress)
        networks[name] = replace(network, info=replace(network.info, score=score))
    paths = [find_weights(found.path)]
    pruned = list(networks.values())[1:]
    paths += [_save(one, directory) for one, directory in zip(pruned, directories, strict=True)]
    return PruneResult(
        dataset=f"{data.name} {scored.split}, {counted(len(scored), 'image')}",
        calibrated_on=f"{data.name} {calibration.split}",
        images=len(chosen),
        protocol=str(protocol),
        importance=tuple(importance_r.tolist()),
        kept=kept,
        directories=tuple(map(str, directories)),
        networks=tuple(measure(networks, paths, processes.device)),
    )


def _open(before: TrainedNetwork, split: str, root: Path | None, found: FoundNetwork) -> Dataset:
    data = before.info.recipe.data
    dataset = open_split(data, split, root)
    check_classes(before.info.classes, dataset, str(found))
    if len(dataset) == 0:
        raise DataError(f"{data.name} has no images in split {split!r}.")
    return dataset


def _output_directories(
    found: FoundNetwork, before: TrainedNetwork, ranks: Sequence[int], out: Path | None
) -> list[Path]:
    """Choose where the results go. Raise before anything is computed if one cannot be written."""
    rank = low_rank_core(before.model).rank
    for wanted in ranks:
        if not 1 <= wanted < rank:
            raise RecipeError(f"--rank must be at least 1 and below {rank}, the rank of {found}.")
    path = found.path
    home = (path if path.is_dir() else path.parent).resolve()
    if found.name:  # nothing is written beside it
        home = Path.cwd() / found.short_name
    if out is None:
        directories = [home.with_name(f"{home.name}-rank{wanted}") for wanted in ranks]
    else:
        directories = [out] if len(ranks) == 1 else [out / f"rank{wanted}" for wanted in ranks]
    _check_free(directories)
    return directories


def _check_free(directories: Sequence[Path]) -> None:
    """Raise an error that names all directories in use.

    A directory that an earlier pruning wrote is free: it is written again.
    """
    for directory in directories:
        check_output_folder(directory)
    taken = [
        str(directory)
        for directory in directories
        if directory.exists() and any(directory.iterdir()) and not _written_by_prune(directory)
    ]
    if taken:
        verb = "exists and is" if len(taken) == 1 else "exist and are"
        other = "Leave out that --rank, or name" if len(taken) < len(directories) else "Name"
        raise OutputError(
            f"{' and '.join(taken)} {verb} not empty. {other} another --out. Nothing was pruned."
        )


def _written_by_prune(directory: Path) -> bool:
    """Return whether `_save` wrote the directory, and no training has run in it since."""
    if any((directory / name).exists() for name in (LAST, LOG)):
        return False
    try:
        start = read_recipe(directory / RECIPE).train.init_from
    except RecipeError:
        return False
    return start == (directory / BEST).resolve()


def _images(
    dataset: Dataset,
    chosen: Iterable[int],
    trained: TrainedNetwork,
    processes: Processes,
    progress: Progress,
) -> Iterable[Tensor]:
    for index in chosen:
        yield whole_image(dataset[index].image_hwc, trained.info.recipe.data.base_size).to(
            processes.device
        )
        progress.advance()


def _score(
    trained: TrainedNetwork,
    dataset: Dataset,
    processes: Processes,
    protocol: Protocol,
    progress: Progress,
) -> dict[str, float]:
    count_kk = count_confusion(
        make_forward(trained.model, processes.device),
        len(trained.info.classes),
        dataset,
        processes,
        protocol=protocol,
        workers=trained.info.recipe.data.workers,
        progress=progress,
    ).count_kk
    return named_scores(count_kk, trained.info.recipe.data.name, trained.info.classes)


def _save(trained: TrainedNetwork, directory: Path) -> Path:
    """Write a run directory whose recipe starts from its own weights: training it fine-tunes."""
    path = directory / BEST
    train = trained.info.recipe.train.model_copy(update={"init_from": path.resolve()})
    # The recipe comes first. It lets the next pruning write a half-written directory again.
    write_recipe(trained.info.recipe.model_copy(update={"train": train}), directory / RECIPE)
    save_trained(path, trained)
    return path
