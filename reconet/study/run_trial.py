"""Run one trial: train a network, score it, and measure its attention.

The trial runs in a process of its own. If it fails or is killed, the others are not affected.
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from torch import Tensor

from reconet.cache import count_feature_confusion
from reconet.cost import model_cost
from reconet.data import open_split
from reconet.data.dataset import Dataset
from reconet.engine import read_log, run_training, run_weights
from reconet.engine.inputs import validation_request
from reconet.errors import ReconetError, first_line
from reconet.evaluation import count_model_confusion
from reconet.evaluation.benchmarks import named_scores
from reconet.inference.protocol import Protocol
from reconet.models.segmenter import Segmenter, build_model
from reconet.models.trained import put_weights
from reconet.recipes.schema import Recipe
from reconet.recipes.storage import read_recipe
from reconet.study.life import count_with_mean
from reconet.study.spectrum import measure_spectrum
from reconet.study.trial import FAILURE, IMPORT, LIVENESS, TrialResult, write_failure, write_result
from reconet.system.distributed import Processes, pick_device
from reconet.system.hardware import environment
from reconet.system.own_code import import_own
from reconet.system.progress import SILENT
from reconet.system.run_files import LAST

STDIN = 0  # the descriptor


def run_trial(
    recipe: Recipe, directory: Path, *, variant: str, network: Path | None, device: str
) -> TrialResult | None:
    """Train and score a network, or score the network of another trial.

    Returns None if a signal stopped the training.
    """
    steps = 0
    if network is None:
        training = run_training(recipe, directory, resume=True, device=device)
        if not training.finished:
            return None
        steps = training.steps
    result = _score(recipe, network or directory, variant, steps, device)
    write_result(directory, result)
    return result


def _score(recipe: Recipe, run: Path, variant: str, steps: int, device: str) -> TrialResult:
    """Score a run. `steps` is 0 if another trial has trained it."""
    trained = steps > 0
    processes = Processes.single(pick_device(device))
    data = recipe.data
    dataset = open_split(data, data.val_split)
    model = _last_network(recipe, run, len(dataset.info.classes)).to(processes.device)
    log = read_log(run)
    cost = model_cost(model, data.crop).total
    protocol = Protocol.of(recipe.eval, data)
    count = _counter(protocol, recipe, model, dataset, processes)
    with_mean_kk = count_with_mean(model, data.crop, count) if trained else None
    speed = _median_speed(log) if trained else None
    return TrialResult(
        variant=variant,
        seed=recipe.train.seed,
        steps=steps or max(line["step"] for line in log),
        protocol=str(protocol),
        figures=_figures(protocol, recipe, log) or _named(count(model), dataset),
        params=cost.params,
        macs=cost.macs,
        images_per_second=speed,
        seconds=steps * recipe.train.batch / speed if speed else None,
        trajectory=_trajectory(log) if trained else [],
        spectrum=measure_spectrum(model, dataset, data, processes.device) if trained else None,
        environment=dict(environment(processes.device)),
        miou_with_mean=None if with_mean_kk is None else _named(with_mean_kk, dataset)["miou"],
        precision=recipe.train.precision,
    )


def _last_network(recipe: Recipe, run: Path, num_classes: int) -> Segmenter:
    """Load the network of the last step.

    The best of many validations would have been chosen by the images that it is scored on.
    """
    model = build_model(recipe, num_classes, pretrained=False)
    put_weights(model, run_weights(run / LAST), run / LAST)
    return model.eval()


def _counter(
    protocol: Protocol, recipe: Recipe, model: Segmenter, dataset: Dataset, processes: Processes
) -> Callable[[Segmenter], Tensor]:
    """Return a function that scores a network: on cached features if they are what is asked for."""
    if recipe.data.views is None or protocol != Protocol.in_training(recipe.data):
        workers = recipe.data.workers
        return lambda model: (
            count_model_confusion(
                model, dataset, processes, protocol=protocol, workers=workers
            ).count_kk
        )
    store = validation_request(recipe, model, dataset).open(model, processes, SILENT)
    return lambda model: (
        count_feature_confusion(model, store, dataset, processes, protocol).count_kk
    )


def _figures(
    protocol: Protocol, recipe: Recipe, log: list[dict[str, Any]]
) -> dict[str, float] | None:
    """Return the scores of the last validation, if they are what the recipe asks for."""
    if protocol != Protocol.in_training(recipe.data):
        return None
    last = [line for line in log if line["kind"] == "val"][-1]
    return {k: v for k, v in last.items() if isinstance(v, float) and k not in LIVENESS}


def _named(count_kk: Tensor, dataset: Dataset) -> dict[str, float]:
    return named_scores(count_kk, dataset.info.name, dataset.info.classes)


def _median_speed(log: list[dict[str, Any]]) -> float | None:
    speeds = [line["images_per_second"] for line in log if line["kind"] == "train"]
    return median(speeds) if speeds else None


def _trajectory(log: list[dict[str, Any]]) -> list[dict[str, float]]:
    names = ("step", "miou", *LIVENESS)
    lines = [line for line in log if line["kind"] == "val"]
    return [{name: line[name] for name in names if name in line} for line in lines]


def main(arguments: list[str]) -> int:
    """Run a trial given as RECIPE.json DIRECTORY VARIANT DEVICE [NETWORK] [--import=MODULE ...].

    The reason of a failure is written to a file in DIRECTORY.
    """
    plain = [argument for argument in arguments if not argument.startswith(IMPORT)]
    recipe_file, directory, variant, device, *network = plain
    threading.Thread(target=_end_with_parent, daemon=True).start()
    run = Path(directory)
    (run / FAILURE).unlink(missing_ok=True)
    try:
        for argument in arguments[len(plain) :]:
            import_own(argument.removeprefix(IMPORT))
        result = run_trial(
            read_recipe(Path(recipe_file)),
            run,
            variant=variant,
            network=Path(network[0]) if network else None,
            device=device,
        )
    except ReconetError as error:
        write_failure(run, str(error))
        return 1
    except Exception as error:  # of whatever kind: the study reports it with the results
        traceback.print_exc()
        write_failure(run, f"{type(error).__name__}: {first_line(error)}")
        return 1
    return 0 if result is not None else 128 + signal.SIGTERM


def _end_with_parent() -> None:
    """End this process at once when the study that started it is gone.

    stdin is a pipe from the study and ends with it. The directory must be free when the study is
    started again. The checkpoint is complete at any moment.
    """
    while os.read(STDIN, 1):  # not sys.stdin: Python cannot end while a thread reads from that
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
