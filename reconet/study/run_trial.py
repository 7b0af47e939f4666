"""Run one trial: train a network, score it, and measure its attention.

The trial runs in a process of its own. If it fails or is killed, the others are not affected.

The ranks in use come from lambda, and from the singular values of the attention unfolded along each
of its axes. In reconet an unfolding along n channels (rows, columns) has rank at most min(n, r),
whatever the paper's "maximum tensor rank" may be. The rank of the tensor itself can be larger than
all three.
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean, median

import torch
from torch import Tensor

from reconet.cache import count_feature_confusion, open_features, want_whole
from reconet.cost import model_cost
from reconet.data import open_split
from reconet.data.dataset import Dataset, evenly_spaced
from reconet.engine import read_log, run_training, run_weights
from reconet.errors import ReconetError, TrainingError, first_line
from reconet.evaluation import count_model_confusion
from reconet.evaluation.metrics import named_scores
from reconet.inference.protocol import Protocol
from reconet.inference.windows import whole_image
from reconet.models.context.low_rank import LowRankCore
from reconet.models.decompose import decompose
from reconet.models.liveness import (
    FactorAxis,
    effective_rank,
    record_mean,
    replace_tensor,
    singular_values,
)
from reconet.models.segmenter import Segmenter, build_model
from reconet.models.trained import put_weights
from reconet.recipes import read_recipe
from reconet.recipes.schema import Data, Recipe
from reconet.study.trial import (
    FAILURE,
    LIVENESS,
    PARTS,
    RESULT,
    Spectrum,
    TrialResult,
    write_failure,
    write_result,
)
from reconet.system.distributed import Processes, pick_device
from reconet.system.hardware import environment
from reconet.system.own_code import import_own
from reconet.system.run_files import LAST

SPECTRUM_IMAGES = 8
AXES: tuple[FactorAxis, ...] = ("channel", "row", "column")


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
    elif not (network / RESULT).is_file():
        raise TrainingError("the network to score was not trained")
    result = _score(recipe, network or directory, variant, steps, device)
    write_result(directory, result)
    return result


def _score(recipe: Recipe, run: Path, variant: str, steps: int, device: str) -> TrialResult:
    """Score a run. `steps` is 0 if another trial has trained it."""
    trained = steps > 0
    processes = Processes.single(pick_device(device))
    data = recipe.data
    dataset = open_split(data, data.val_split)
    # The network of the last step: the best of many validations would have been chosen by the
    # images that it is scored on.
    model = build_model(recipe, len(dataset.info.classes), pretrained=False)
    put_weights(model, run_weights(run / LAST), run / LAST)
    model.eval().to(processes.device)
    log = read_log(run)
    validations = [line for line in log if line["kind"] == "val"]
    speeds = [line["images_per_second"] for line in log if line["kind"] == "train"]
    speed = median(speeds) if trained and speeds else None
    cost = model_cost(model, data.crop).total
    protocol = Protocol.of(recipe.eval, data)
    in_training = protocol == Protocol.in_training(data)
    count = _counter(protocol, recipe, model, dataset, processes)
    with_mean_kk = count_with_mean(model, data.crop, count) if trained else None

    def named(count_kk: Tensor) -> dict[str, float]:
        return named_scores(count_kk, dataset.info.name, dataset.info.classes)

    last = validations[-1] if validations else {}
    floats = {k: v for k, v in last.items() if isinstance(v, float) and k not in LIVENESS}
    curve = [{k: line[k] for k in ("step", "miou", *LIVENESS) if k in line} for line in validations]
    return TrialResult(
        variant=variant,
        seed=recipe.train.seed,
        steps=steps or max(line["step"] for line in log),
        protocol=str(protocol),
        figures=floats if in_training else named(count(model)),
        params=cost.params,
        macs=cost.macs,
        images_per_second=speed,
        seconds=steps * recipe.train.batch / speed if speed else None,
        trajectory=curve if trained else [],
        spectrum=measure_spectrum(model, dataset, data, processes.device) if trained else None,
        environment=dict(environment(processes.device)),
        miou_with_mean=None if with_mean_kk is None else named(with_mean_kk)["miou"],
        precision=recipe.train.precision,
    )


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
    stores = open_features(want_whole(recipe, model, dataset), model, processes)
    return lambda model: (
        count_feature_confusion(model, stores, dataset, processes, protocol).count_kk
    )


def count_with_mean(
    model: Segmenter, crop: tuple[int, int], count: Callable[[Segmenter], Tensor]
) -> Tensor | None:
    """Return the confusion matrix with the low-rank tensor replaced by its mean: a test of life.

    If the score stays the same, what the tensor says about an image is of no use. `count` shows all
    images to a network. It is called twice: to take the mean over these images, and to score the
    network with it. Returns None if the context has no tensor.
    """
    core = model.context.core
    if not isinstance(core, LowRankCore):
        return None
    stage = model.backbone.stages(crop).c4
    with record_mean(core, (stage.height, stage.width)) as mean:
        count(model)
    with replace_tensor(core, mean.value()):
        return count(model)


@torch.no_grad()
def measure_spectrum(
    model: Segmenter, dataset: Dataset, data: Data, device: torch.device
) -> Spectrum | None:
    """Measure the low-rank tensor of a network, A or Y. Contexts without ranks have none."""
    if model.context.low_rank_head() is None:
        return None
    values: dict[str, list[Tensor]] = {part: [] for part in PARTS}
    for index in evenly_spaced(len(dataset), SPECTRUM_IMAGES):
        image_bchw = whole_image(dataset[index].image_hwc, data.base_size)
        factors = decompose(model, image_bchw.to(device)).factors
        weight_r = factors.weight_r.cpu().double()
        values["lambda"].append(weight_r.abs().sort(descending=True).values)
        for axis in AXES:
            values[axis].append(singular_values(factors, axis)[0])

    def mean(measure: Callable[[Tensor], Tensor]) -> dict[str, float]:
        # Image by image: maps of other sizes have other numbers of values.
        return {part: fmean(measure(v_n[None]).item() for v_n in v) for part, v in values.items()}

    return Spectrum(
        rank=values["lambda"][0].numel(),
        effective=mean(effective_rank),
        for_90=mean(partial(count_for_share, share=0.90)),
        for_99=mean(partial(count_for_share, share=0.99)),
    )


def count_for_share(value_bn: Tensor, share: float) -> Tensor:
    """Return how many of the values, which are sorted, hold this share of the energy of all."""
    energy_bn = value_bn.square()
    held_bn = energy_bn.cumsum(-1) / energy_bn.sum(-1, keepdim=True)
    return (held_bn < share - 1e-12).sum(-1).double() + 1


def main(arguments: list[str]) -> int:
    """Run a trial given as RECIPE.json DIRECTORY VARIANT DEVICE NETWORK [MODULE ...].

    NETWORK is empty if the trial trains its own. Each MODULE of the user is imported first. The
    reason of a failure is written to a file in DIRECTORY.
    """
    recipe_file, directory, variant, device, network, *modules = arguments
    threading.Thread(target=_end_with_parent, daemon=True).start()
    run = Path(directory)
    (run / FAILURE).unlink(missing_ok=True)
    try:
        for module in modules:
            import_own(module)
        result = run_trial(
            read_recipe(Path(recipe_file)),
            run,
            variant=variant,
            network=Path(network) if network else None,
            device=device,
        )
    except Exception as error:  # of whatever kind: the study reports it with the results
        if isinstance(error, ReconetError):
            reason = str(error)
        else:
            traceback.print_exc()
            reason = f"{type(error).__name__}: {first_line(error)}"
        write_failure(run, reason)
        return 1
    return 0 if result is not None else 128 + signal.SIGTERM


def _end_with_parent() -> None:
    """End this process at once when the study that started it is gone.

    stdin is a pipe from the study and ends with it. The directory must be free when the study is
    started again. The checkpoint is complete at any moment.
    """
    while os.read(0, 1):  # not sys.stdin: Python cannot end while a thread reads from that
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
