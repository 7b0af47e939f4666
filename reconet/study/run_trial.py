"""One cell of a grid: one variant, one seed. It is trained, scored and looked into, and what was
found is one small file. A process of its own runs it, so that whatever happens to it (no memory
left, a kill) happens to nothing else.
"""

import json
import os
import signal
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from reconet.cost.counter import model_cost
from reconet.data import open_split
from reconet.data.dataset import Dataset
from reconet.engine.checkpoint import run_weights
from reconet.engine.run import run_training
from reconet.engine.rundir import read_log
from reconet.errors import ReconetError, TrainingError, first_line
from reconet.evaluation.benchmarks import score_figures
from reconet.evaluation.evaluate import evaluate
from reconet.inference.protocol import Protocol
from reconet.models.segmenter import Segmenter, build_model
from reconet.models.trained import put_weights
from reconet.recipes.schema import Recipe
from reconet.recipes.storage import read_recipe
from reconet.study.spectrum import Spectrum, spectrum
from reconet.system.distributed import World, pick_device
from reconet.system.files import write_text
from reconet.system.hardware import environment
from reconet.system.run_files import LAST

RESULT, FAILURE = "result.json", "failure.json"
FORMAT = 1
LIVENESS = ("attention_spread", "effective_rank", "lambda_spread")


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """What one training came to: the network at its last step, not the best of many."""

    variant: str
    seed: int
    steps: int
    protocol: str
    figures: dict[str, float]
    params: int
    macs: int  # of one crop, in use
    images_per_second: float | None  # median in training; None for networks scored again
    seconds: float | None  # of training, at that speed
    trajectory: list[dict[str, float]]  # mIoU and liveness at every validation
    spectrum: Spectrum | None  # of contexts with a tensor reconstruction
    environment: dict[str, str]


def run_cell(
    recipe: Recipe, directory: Path, *, variant: str, network: Path | None, device: str
) -> CellResult | None:
    """Train and score, or score the network of another cell; None if a signal stopped it."""
    steps = 0
    if network is None:
        outcome = run_training(recipe, directory, resume=True, device=device)
        if not outcome.finished:
            return None
        steps = outcome.steps
    result = _score(recipe, network or directory, variant, steps, device)
    write_text(directory / RESULT, json.dumps({"format": FORMAT, **asdict(result)}, indent=1))
    return result


def _score(recipe: Recipe, run: Path, variant: str, steps: int, device: str) -> CellResult:
    """`steps` that this cell has trained; none if the network is another cell's."""
    trained = steps > 0
    world = World(rank=0, size=1, device=pick_device(device))
    data = recipe.data
    dataset = open_split(data, data.val_split)
    model = last_network(recipe, run, len(dataset.info.classes)).to(world.device)
    log = read_log(run)
    cost = model_cost(model, data.crop).total
    protocol = Protocol.of(recipe.eval, data)
    speed = _speed(log) if trained else None
    return CellResult(
        variant=variant,
        seed=recipe.train.seed,
        steps=steps or max(line["step"] for line in log),
        protocol=str(protocol),
        figures=_figures(protocol, recipe, model, dataset, log, world),
        params=cost.params,
        macs=cost.macs,
        images_per_second=speed,
        seconds=steps * recipe.train.batch / speed if speed else None,
        trajectory=_trajectory(log) if trained else [],
        spectrum=spectrum(model, dataset, world.device) if trained else None,
        environment=dict(environment(world.device)),
    )


def last_network(recipe: Recipe, run: Path, num_classes: int) -> Segmenter:
    """At the last step: the best of many validations would be chosen by the scored images."""
    model = build_model(recipe, num_classes, pretrained=False)
    put_weights(model, run_weights(run / LAST), run / LAST)
    return model.eval()


def _figures(
    protocol: Protocol,
    recipe: Recipe,
    model: Segmenter,
    dataset: Dataset,
    log: list[dict[str, Any]],
    world: World,
) -> dict[str, float]:
    if protocol == Protocol.in_training(recipe.data):  # the training has just done that
        last = [line for line in log if line["kind"] == "val"][-1]
        return {k: v for k, v in last.items() if isinstance(v, float) and k not in LIVENESS}
    workers = recipe.data.workers
    count_kk = evaluate(model, dataset, world, protocol=protocol, workers=workers)
    return score_figures(count_kk, dataset.info.name, dataset.info.classes)


def _speed(log: list[dict[str, Any]]) -> float | None:
    speeds = [line["images_per_second"] for line in log if line["kind"] == "train"]
    return median(speeds) if speeds else None


def _trajectory(log: list[dict[str, Any]]) -> list[dict[str, float]]:
    names = ("step", "miou", *LIVENESS)
    lines = [line for line in log if line["kind"] == "val"]
    return [{name: line[name] for name in names if name in line} for line in lines]


def read_result(directory: Path) -> CellResult | None:
    """What a finished cell has found; None if it is not finished."""
    path = directory / RESULT
    if not path.is_file():
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values.pop("format") != FORMAT:
            raise ValueError("another format")
        values["spectrum"] = values["spectrum"] and Spectrum(**values["spectrum"])
        return CellResult(**values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrainingError(f"{path} is damaged ({error}); remove it to run it again.") from error


def main(arguments: list[str]) -> int:
    """RECIPE.json DIRECTORY VARIANT DEVICE [NETWORK]; why it failed is left in a file."""
    recipe_file, directory, variant, device, *network = arguments
    threading.Thread(target=_end_with_parent, daemon=True).start()
    place = Path(directory)
    (place / FAILURE).unlink(missing_ok=True)
    try:
        result = run_cell(
            read_recipe(Path(recipe_file)),
            place,
            variant=variant,
            network=Path(network[0]) if network else None,
            device=device,
        )
    except ReconetError as error:
        note_failure(place, str(error))
        return 1
    except Exception as error:
        import traceback

        traceback.print_exc()
        note_failure(place, f"{type(error).__name__}: {first_line(error)}")
        return 1
    return 0 if result is not None else 128 + signal.SIGTERM


def note_failure(directory: Path, reason: str) -> None:
    write_text(directory / FAILURE, json.dumps({"error": reason}))


def _end_with_parent() -> None:
    """stdin is a pipe from the study. If that was killed the pipe ends, and so do we, at once: the
    cell must be free when the study is started again, and its checkpoint is whole at any moment."""
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
