"""Measure the training of a head on cached features against that of the whole network, in turns.

    python -m benchmarks.frozen --steps 5

Both train the same network on crops of the same size. The images of the whole training are loaded
before, so only the network is measured. The features are read from their files in every step.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import cycle
from statistics import median
from tempfile import TemporaryDirectory

import torch

from reconet.cache import FeatureBatch, Store, feature_batches, open_features, want_views
from reconet.cache.build import EntryWriter, as_fast_trunk
from reconet.data import open_dataset
from reconet.data.dataset import Dataset
from reconet.data.loader import Batch, batches
from reconet.data.order import BatchOrder
from reconet.data.transforms import Augmentation
from reconet.engine import State, Step, make_state, training_steps
from reconet.recipes import Recipe, apply_overrides, find_recipe
from reconet.system.distributed import Processes, pick_device
from reconet.system.hardware import Precision, make_bf16_safe
from reconet.system.timing import ratios, time_in_turns
from reconet.system.user_cache import ROOT_VARIABLE

FULL, CACHED, BUILD = "whole network", "head on cached features", "an entry of the cache"
BUILD_BF16 = "an entry in bf16"


@dataclass(frozen=True, kw_only=True)
class FrozenBench:
    """What a cache of features costs, and what it gives."""

    full_images_per_second: float
    cached_images_per_second: float
    over_full: float  # speed as a multiple of the whole network's, median over the steps
    cache_bytes_per_image: int  # and view
    build_seconds_per_image: float  # and view, with as many processes as a training has threads
    build_in_bf16: float  # speed of that in bf16, as a multiple of that in fp32
    break_even_epochs: float | None  # after which building one view has paid; None: never


def bench_frozen(
    *,
    backbone: str = "resnet50",
    size: int = 256,
    batch: int = 16,
    steps: int = 8,
    project: int = 512,
    device: str = "auto",
) -> FrozenBench:
    """Train with and without a cache on generated images, one step each in turn.

    The network is that of voc12/frozen_r50, with random weights.
    """
    processes = Processes.single(pick_device(device))
    if processes.device.type == "cpu":
        make_bf16_safe()  # before the first product
    recipe = apply_overrides(
        find_recipe("voc12/frozen_r50"),
        [
            *("data.name=scenes", "data.train_split=train", "data.view_seed=0", "data.views=1"),
            *(f"data.crop={size}", f"data.base_size={size}", "model.weights=null"),
            f'data.options={{"size": [{size}, {size}], "train": {batch}}}',
            *(f"model.backbone={backbone}", f"model.project={project}", f"train.batch={batch}"),
            *(f"train.steps={steps + 1}", "optim.lr=0.001"),
        ],
    )
    dataset = open_dataset("scenes", "train", None, recipe.data.options)
    with TemporaryDirectory(prefix="reconet-bench-") as folder:
        os.environ[ROOT_VARIABLE] = folder
        stores, writers, head = _cached_state(recipe, dataset, processes)
        stream = _features(stores, recipe, dataset)
        run_head = training_steps(head, stream, recipe, steps + 1, processes)
        calls: dict[str, Callable[[], object]] = {
            FULL: _full_step(recipe, dataset, processes),
            CACHED: partial(_step, run_head),
            **{
                name: partial(next, map(write_entry, cycle(range(batch))))
                for name, write_entry in writers.items()
            },
        }
        times = time_in_turns(calls, steps)
    builders = torch.get_num_threads() if processes.device.type == "cpu" else 1
    return summarise(times, batch, builders, sum(store.slot_bytes for store in stores))


def summarise(
    times: Mapping[str, Sequence[float]], batch: int, builders: int, entry_bytes: int
) -> FrozenBench:
    """Compute speeds and the break-even from the seconds of each call in each round."""
    full, cached = (median(times[name]) / batch for name in (FULL, CACHED))
    build = median(times[BUILD]) / builders
    return FrozenBench(
        full_images_per_second=1 / full,
        cached_images_per_second=1 / cached,
        over_full=median(ratios(times[FULL], times[CACHED])),
        cache_bytes_per_image=entry_bytes,
        build_seconds_per_image=build,
        build_in_bf16=median(ratios(times[BUILD], times[BUILD_BF16])),
        break_even_epochs=build / (full - cached) if full > cached else None,
    )


def _full_step(recipe: Recipe, dataset: Dataset, processes: Processes) -> Callable[[], object]:
    recipe = apply_overrides(recipe, ["model.frozen=false", "data.views=null"])
    steps = recipe.train.steps or 1
    stream: Iterator[Batch] = batches(
        dataset, Augmentation.of(recipe.data), seed=0, batch=recipe.train.batch, steps=steps
    )
    state = _state(recipe, dataset, processes)
    return partial(_step, training_steps(state, list(stream), recipe, steps, processes))


def _step(run: Iterator[Step]) -> float:
    """Take a step, and wait for it."""
    return float(next(run).loss)


def _cached_state(
    recipe: Recipe, dataset: Dataset, processes: Processes
) -> tuple[list[Store], dict[str, EntryWriter], State]:
    """Fill a cache of its own, and return what writes an entry and what trains."""
    state = _state(recipe, dataset, processes)
    wanted = want_views(recipe, state.model, dataset)
    stores = open_features(wanted, state.model.eval(), processes)
    [features] = [one for one in wanted if one.store.name == "c4"]
    precisions: dict[str, Precision] = {BUILD: "fp32", BUILD_BF16: "bf16"}
    writers = {
        name: EntryWriter(
            replace(features, precision=precision), as_fast_trunk(state.model, precision)
        )
        for name, precision in precisions.items()
    }
    return stores, writers, state


def _state(recipe: Recipe, dataset: Dataset, processes: Processes) -> State:
    torch.manual_seed(0)
    return make_state(recipe, len(dataset.info.classes), processes, fresh=True)


def _features(stores: Sequence[Store], recipe: Recipe, dataset: Dataset) -> Iterator[FeatureBatch]:
    order = BatchOrder(
        images=len(dataset),
        seed=0,
        batch=recipe.train.batch,
        start=0,
        steps=recipe.train.steps or 1,
        rank=0,
        processes=1,
    )
    return feature_batches(stores, order, [dataset.name(index) for index in range(len(dataset))])


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description="Training on cached features.")
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--size", type=int, default=256, help="height and width of the images")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=8, help="measured steps")
    print(json.dumps(asdict(bench_frozen(**vars(parser.parse_args()))), indent=2))


if __name__ == "__main__":
    main()
