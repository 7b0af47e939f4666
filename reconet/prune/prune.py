"""Fewer ranks: keep those that matter to a network's answers, and measure what that costs.

cut.py       which ranks matter, and the network without the others    pure
measure.py   networks side by side: size, products, time
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from reconet.data import open_split
from reconet.data.dataset import Dataset
from reconet.errors import DataError, OutputError, RecipeError
from reconet.evaluation.benchmarks import score_figures
from reconet.evaluation.evaluate import check_classes, confusion_of
from reconet.inference.network import in_use
from reconet.inference.protocol import Protocol
from reconet.inference.windows import whole_image
from reconet.models.decompose import reconstruction
from reconet.models.trained import TrainedNetwork, load_trained, save_trained
from reconet.prune.ranks import best_ranks, cut, importance
from reconet.prune.measure import Measured, measure
from reconet.recipes.storage import read_recipe, write_recipe
from reconet.system.distributed import Processes, pick_device
from reconet.system.files import check_folder
from reconet.system.run_files import BEST, LAST, LOG, RECIPE

Progress = Callable[[str, int], Callable[[], None]]  # what is done, how often -> call after each


@dataclass(frozen=True, kw_only=True)
class PruneResult:
    dataset: str
    calibrated_on: str
    images: int
    protocol: str
    importance: tuple[float, ...]
    kept: dict[int, tuple[int, ...]]  # by the new rank: numbers of the old ranks
    directories: tuple[str, ...]
    networks: tuple[Measured, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def prune_run(
    run: Path,
    ranks: Sequence[int],
    *,
    split: str | None = None,
    images: int = 64,
    out: Path | None = None,
    root: Path | None = None,
    device: str = "auto",
    progress: Progress = lambda text, total: lambda: None,
) -> PruneResult:
    """Prune a trained network to each of `ranks`; every one becomes a directory like a run's."""
    before = load_trained(run)
    processes = Processes.single(pick_device(device))
    before.model.to(processes.device)
    directories = _places(run, before, ranks, out)
    data = before.info.recipe.data
    scored = _open(before, data.val_split, root, run)
    calibration = _open(before, split or data.train_split, root, run)
    chosen = spread(len(calibration), images)
    tick = progress("calibrate", len(chosen))
    importance_r = importance(before.model, _images(calibration, chosen, before, processes, tick))
    kept = {rank: best_ranks(importance_r, rank) for rank in ranks}
    networks = {"before": before} | {f"rank {r}": cut(before, kept[r]) for r in ranks}
    protocol = Protocol.of(before.info.recipe.eval, data)
    for name, network in networks.items():
        tick = progress(f"score {name}", len(scored))
        score = _scores(network, scored, processes, protocol, tick)
        networks[name] = replace(network, info=replace(network.info, score=score))
    paths = [run / BEST if run.is_dir() else run]
    pruned = list(networks.values())[1:]
    paths += [_save(one, place) for one, place in zip(pruned, directories, strict=True)]
    return PruneResult(
        dataset=f"{data.name} {scored.split}, {len(scored)} images",
        calibrated_on=f"{data.name} {calibration.split}",
        images=len(chosen),
        protocol=str(protocol),
        importance=tuple(importance_r.tolist()),
        kept=kept,
        directories=tuple(map(str, directories)),
        networks=tuple(measure(networks, paths, processes.device)),
    )


def spread(length: int, count: int) -> list[int]:
    """So many numbers below `length`, evenly over it; all of them if there are fewer."""
    places = np.linspace(0, length - 1, min(count, length))
    return [int(place) for place in np.unique(places.round())]


def _open(before: TrainedNetwork, split: str, root: Path | None, run: Path) -> Dataset:
    data = before.info.recipe.data
    dataset = open_split(data, split, root)
    check_classes(before.info.classes, dataset, run)
    if len(dataset) == 0:
        raise DataError(f"{data.name} has no images in split {split!r}.")
    return dataset


def _places(
    run: Path, before: TrainedNetwork, ranks: Sequence[int], out: Path | None
) -> list[Path]:
    """Where the results go; what cannot be is said before anything is computed."""
    rank = reconstruction(before.model).rank_logits_r.numel()
    for wanted in ranks:
        if not 1 <= wanted < rank:
            raise RecipeError(f"--rank must be at least 1 and below {rank}, the rank of {run}.")
    home = (run if run.is_dir() else run.parent).resolve()
    if out is None:
        places = [home.with_name(f"{home.name}-rank{wanted}") for wanted in ranks]
    else:
        places = [out] if len(ranks) == 1 else [out / f"rank{wanted}" for wanted in ranks]
    _check_free(places)
    return places


def _check_free(places: Sequence[Path]) -> None:
    """All of them at once: nothing is computed that could not be kept. What a pruning has written
    is renewed."""
    for place in places:
        check_folder(place)
    taken = [
        str(place)
        for place in places
        if place.exists() and any(place.iterdir()) and not is_pruned(place)
    ]
    if taken:
        verb = "is" if len(taken) == 1 else "are"
        other = "leave out that --rank, or " if len(taken) < len(places) else ""
        raise OutputError(
            f"{' and '.join(taken)} {verb} there and not empty; {other}name another --out. "
            "Nothing was pruned."
        )


def is_pruned(directory: Path) -> bool:
    """Whether `_save` wrote it, and no training has gone on there."""
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
    tick: Callable[[], None],
) -> Iterable[Tensor]:
    for index in chosen:
        yield whole_image(dataset[index].image_hwc, trained.info.recipe).to(processes.device)
        tick()


def _scores(
    trained: TrainedNetwork,
    dataset: Dataset,
    processes: Processes,
    protocol: Protocol,
    tick: Callable[[], None],
) -> dict[str, float]:
    count_kk = confusion_of(
        in_use(trained.model, processes.device),
        len(trained.info.classes),
        dataset,
        processes,
        protocol=protocol,
        workers=trained.info.recipe.data.workers,
        on_image=tick,
    )
    return score_figures(count_kk.cpu(), trained.info.recipe.data.name, trained.info.classes)


def _save(trained: TrainedNetwork, directory: Path) -> Path:
    """A directory like a run's. Its recipe begins from these weights: training it fine-tunes."""
    path = directory / BEST
    train = trained.info.recipe.train.model_copy(update={"init_from": path.resolve()})
    # The recipe first: by it a folder that was left half written can be written again.
    write_recipe(trained.info.recipe.model_copy(update={"train": train}), directory / RECIPE)
    save_trained(path, trained)
    return path
