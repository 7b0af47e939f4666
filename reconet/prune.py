"""Fewer ranks: keep those that matter to a network's answers, and measure what that costs.

A rank matters as much as the answers change without it: over pictures to learn from (the
calibration), each rank is switched off in turn, and the change of the logits is squared and
averaged, less its mean over classes, which no probability sees. Only what stands after the fusing
convolution is computed again (inside.py).

The kept ranks keep their lambda: softmax would make them sum to 1 again and so enlarge the
attention. The sum that they had is stored beside them (`weight_sum`, option `pruned`).

Dimensions: r rank, n the length of one axis.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reconet import recipe as recipes
from reconet.cost import model_cost
from reconet.data import open_dataset
from reconet.data.dataset import Dataset
from reconet.errors import DataError, OutputError, RecipeError
from reconet.evaluate import evaluate
from reconet.explain.source import shown
from reconet.figures import score_figures
from reconet.inside import look_inside, reconstruction
from reconet.models.segmenter import Segmenter, build_model
from reconet.models.trained import BEST, Trained, load_trained, put_weights, save_trained
from reconet.protocol import Protocol
from reconet.recipe import Recipe
from reconet.runtime import in_use
from reconet.world import World, pick_device

CORE = "context.core."
AXES = ("channel", "row", "column")
Progress = Callable[[str, int], Callable[[], None]]  # what is done, how often -> call after each


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A network before or after; times are ratios to the network before, taken in turns."""

    name: str
    rank: int
    figures: dict[str, float]
    params: int  # in use: without the auxiliary head
    core_params: int
    file_bytes: int
    macs: int  # of one training crop
    core_macs: int
    time: float
    core_time: float


@dataclass(frozen=True, kw_only=True)
class Pruning:
    dataset: str
    calibrated_on: str
    pictures: int
    protocol: str
    importance: tuple[float, ...]
    kept: dict[int, tuple[int, ...]]  # by the new rank: numbers of the old ranks
    directories: tuple[str, ...]
    networks: tuple[Measured, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def importance(model: Segmenter, images: Iterable[Tensor]) -> Tensor:
    """importance_r: root mean square change of the logits without each rank."""
    total_r, pictures = torch.zeros(reconstruction(model).rank_logits_r.numel()).double(), 0
    for image_bchw in images:
        inside = look_inside(model, image_bchw)
        every_r = torch.ones(inside.rank, device=image_bchw.device)
        fused_bchw = inside.rest_bchw + inside.contribution(every_r)
        whole_bkij = inside.finish(fused_bchw)
        for rank in range(inside.rank):
            change_bkij = inside.finish(fused_bchw - inside.part(rank)) - whole_bkij
            change_bkij -= change_bkij.mean(1, keepdim=True)
            total_r[rank] += change_bkij.double().square().mean().cpu()
        pictures += 1
    return (total_r / max(1, pictures)).sqrt()


def best_ranks(importance_r: Tensor, count: int) -> tuple[int, ...]:
    """The most important ones, in the order in which they are in the network."""
    best = importance_r.argsort(descending=True, stable=True)[:count]
    return tuple(sorted(best.tolist()))


def cut(trained: Trained, kept: Sequence[int]) -> Trained:
    """The same network with only some of its ranks, each with the lambda that it had."""
    model = trained.model
    core = reconstruction(model)
    state = dict(model.state_dict())
    for axis in AXES:
        name = f"{CORE}{axis}.linear.weight"
        by_rank = state[name].unflatten(0, (core.rank_logits_r.numel(), -1))
        state[name] = by_rank[list(kept)].flatten(0, 1)
    state[f"{CORE}rank_logits_r"] = core.rank_logits_r.detach()[list(kept)]
    weight_r = core.rank_logits_r.detach().softmax(dim=0)
    if core.weight_sum is not None:
        weight_r = weight_r * core.weight_sum
    state[f"{CORE}weight_sum"] = weight_r[list(kept)].sum()
    recipe = smaller(trained.recipe, len(kept))
    result = build_model(recipe, len(trained.classes), pretrained=False)
    put_weights(result, state, Path("the network before"))
    return replace(trained, model=result.eval().to(weight_r.device), recipe=recipe)


def smaller(recipe: Recipe, rank: int) -> Recipe:
    """The recipe of the network that `cut` makes."""
    options = {key: value for key, value in recipe.model.options.items() if key != "rank"}
    changed = {"rank": rank, "options": options | {"pruned": True}}
    return recipe.model_copy(update={"model": recipe.model.model_copy(update=changed)})


def prune_run(
    run: Path,
    ranks: Sequence[int],
    *,
    split: str | None = None,
    pictures: int = 64,
    out: Path | None = None,
    root: Path | None = None,
    device: str = "auto",
    progress: Progress = lambda text, total: lambda: None,
) -> Pruning:
    """Prune a trained network to each of `ranks`; every one becomes a directory like a run's."""
    before = load_trained(run)
    world = World(rank=0, size=1, device=pick_device(device))
    before.model.to(world.device)
    directories = _places(run, before, ranks, out)
    data = before.recipe.data
    scored, calibration = (
        open_dataset(data.name, name, root or data.root, data.options)
        for name in (data.val_split, split or data.train_split)
    )
    for dataset in (scored, calibration):
        if dataset.info.classes != before.classes or not len(dataset):
            raise DataError(f"{data.name} {dataset.split} is not what {run} was trained on.")
    chosen = np.unique(
        np.linspace(0, len(calibration) - 1, min(pictures, len(calibration))).round()
    )
    tick = progress("calibrate", len(chosen))
    importance_r = importance(before.model, _pictures(calibration, chosen, before, world, tick))
    kept = {rank: best_ranks(importance_r, rank) for rank in ranks}
    networks = [before, *(cut(before, kept[rank]) for rank in ranks)]
    names = ["before", *(f"rank {rank}" for rank in ranks)]
    protocol = Protocol.of(before.recipe.eval, data)
    for number, network in enumerate(networks):
        tick = progress(f"score {names[number]}", len(scored))
        networks[number] = replace(network, score=_scores(network, scored, world, protocol, tick))
    paths = [run / BEST if run.is_dir() else run]
    for network, directory in zip(networks[1:], directories, strict=True):
        paths.append(_save(network, directory))
    return Pruning(
        dataset=f"{data.name} {scored.split}, {len(scored)} pictures",
        calibrated_on=f"{data.name} {calibration.split}",
        pictures=len(chosen),
        protocol=str(protocol),
        importance=tuple(importance_r.tolist()),
        kept=kept,
        directories=tuple(map(str, directories)),
        networks=tuple(_measure(names, networks, paths, world.device)),
    )


def _places(run: Path, before: Trained, ranks: Sequence[int], out: Path | None) -> list[Path]:
    """Where the results go; what cannot be is said before anything is computed."""
    rank = reconstruction(before.model).rank_logits_r.numel()
    for wanted in ranks:
        if not 1 <= wanted < rank:
            raise RecipeError(f"--rank must be from 1 to {rank - 1}: {run} has {rank} ranks.")
    home = (run if run.is_dir() else run.parent).resolve()
    if out is None:
        places = [home.with_name(f"{home.name}-rank{wanted}") for wanted in ranks]
    else:
        places = [out] if len(ranks) == 1 else [out / f"rank{wanted}" for wanted in ranks]
    for place in places:
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise OutputError(f"{place} is there and not empty; name another --out.")
    return places


def _pictures(
    dataset: Dataset,
    chosen: Iterable[float],
    trained: Trained,
    world: World,
    tick: Callable[[], None],
) -> Iterable[Tensor]:
    for index in chosen:
        yield shown(dataset[int(index)].image_hwc, trained.recipe).to(world.device)
        tick()


def _scores(
    trained: Trained, dataset: Dataset, world: World, protocol: Protocol, tick: Callable[[], None]
) -> dict[str, float]:
    count_kk = evaluate(
        trained.model,
        dataset,
        world,
        protocol=protocol,
        forward=in_use(trained.model, world.device),
        workers=trained.recipe.data.workers,
        on_picture=tick,
    )
    return score_figures(count_kk.cpu(), trained.recipe.data.name, trained.classes)


def _save(trained: Trained, directory: Path) -> Path:
    """A directory like a run's. Its recipe begins from these weights: training it fine-tunes."""
    path = directory / BEST
    save_trained(
        path,
        trained.model,
        trained.recipe,
        classes=trained.classes,
        palette=trained.palette,
        step=trained.step,
        score=trained.score,
    )
    train = trained.recipe.train.model_copy(update={"init_from": path.resolve()})
    recipes.write(trained.recipe.model_copy(update={"train": train}), directory / "recipe.json")
    return path


def _measure(
    names: Sequence[str], networks: Sequence[Trained], paths: Sequence[Path], device: torch.device
) -> Iterable[Measured]:
    crop = networks[0].recipe.data.crop
    image_bchw = torch.zeros(1, 3, *crop, dtype=torch.uint8, device=device)
    x_bchw = look_inside(networks[0].model, image_bchw).x_bchw
    forwards = {
        name: _call(in_use(one.model, device), image_bchw)
        for name, one in zip(names, networks, strict=True)
    }
    cores = {
        name: _call(torch.no_grad()(reconstruction(one.model)), x_bchw)
        for name, one in zip(names, networks, strict=True)
    }
    times, core_times = in_turns(forwards, 7), in_turns(cores, 15)
    for name, one, path in zip(names, networks, paths, strict=True):
        cost = model_cost(one.model, crop)
        core = next(part for part in cost.parts if part.name == "core")
        yield Measured(
            name=name,
            rank=reconstruction(one.model).rank_logits_r.numel(),
            figures=one.score,
            params=cost.total.params,
            core_params=core.params,
            file_bytes=path.stat().st_size,
            macs=cost.total.macs,
            core_macs=core.macs,
            time=times[name],
            core_time=core_times[name],
        )


def _call(function: Callable[[Tensor], Tensor], value: Tensor) -> Callable[[], object]:
    return lambda: function(value)


def in_turns(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median over rounds of each call's time over that of the first, so that noise meets all."""
    first = next(iter(calls))
    ratios: dict[str, list[float]] = {name: [] for name in calls}
    for round_number in range(repeats + 1):
        seconds = {}
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name] = time.perf_counter() - start
        if round_number > 0:  # the first round warms up
            for name in calls:
                ratios[name].append(seconds[name] / seconds[first])
    return {name: median(values) for name, values in ratios.items()}
