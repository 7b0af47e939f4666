"""Every context trains on scenes.

Three of them, with a loss or a state of their own, also train in two processes.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from reconet.data import open_dataset
from reconet.data.loader import batches
from reconet.data.transforms import Augmentation
from reconet.engine import State, make_state, read_log, training_steps
from reconet.models import CONTEXTS
from reconet.models.context.emanet import EMANet
from reconet.recipes import Recipe
from tests.engine.steps import ALONE, Batch
from tests.factories import tiny_recipe
from tests.launch import command, last, run

STEPS = 8


def recipe(context: str, *settings: str) -> Recipe:
    return tiny_recipe(f"model.context={context}", *settings)


@pytest.fixture(scope="module")
def batch() -> Batch:
    """Return the first batch of the training."""
    chosen = recipe("plain")
    scenes = open_dataset("scenes", "train", "", chosen.data.options)
    return next(batches(scenes, Augmentation.of(chosen.data), seed=0, batch=4, steps=1))


def repeated(batch: Batch) -> Iterator[Batch]:
    for step in range(STEPS):
        yield batch._replace(step=step)


def trained(chosen: Recipe, batch: Batch) -> tuple[State, list[float]]:
    torch.manual_seed(0)
    classes = len(open_dataset("scenes", "train", "", chosen.data.options).info.classes)
    state = make_state(chosen, classes, ALONE, fresh=True)
    losses = [
        float(step.loss) for step in training_steps(state, repeated(batch), chosen, STEPS, ALONE)
    ]
    return state, losses


@pytest.mark.parametrize("context", sorted(CONTEXTS))
def test_a_few_steps_on_scenes_lower_the_loss(context: str, batch: Batch) -> None:
    state, losses = trained(recipe(context, "optim.lr=0.1"), batch)
    assert losses[-1] < 0.95 * losses[0]
    for name, value in state.model.state_dict().items():
        assert value.isfinite().all(), name


@pytest.mark.parametrize(
    ("context", "option"),
    [("acfnet", "coarse_weight"), ("encnet", "se_weight"), ("cfnet", "se_weight")],
)
def test_a_loss_of_its_own_is_part_of_the_loss(context: str, option: str, batch: Batch) -> None:
    without, with_own = (
        trained(recipe(context, f"model.options.{option}={weight}"), batch)[1][0]
        for weight in (0, 0.5)
    )
    assert with_own > without + 0.1


def test_the_bases_of_emanet_move_and_leave_nothing_behind(batch: Batch) -> None:
    chosen = recipe("emanet")
    torch.manual_seed(0)
    fresh = make_state(chosen, 5, ALONE, fresh=True).model.context
    moved = trained(chosen, batch)[0].model.context
    assert isinstance(fresh, EMANet)
    assert isinstance(moved, EMANet)
    assert (moved.core.bases_ck - fresh.core.bases_ck).abs().max() > 0.01
    assert moved.core.seen_images == 0
    assert not moved.core.bases_ck.requires_grad


@pytest.mark.slow
def test_the_bases_of_two_processes_are_those_of_one(tmp_path: Path) -> None:
    one, two = in_one_and_in_two("emanet", tmp_path)
    assert losses_of(one) == pytest.approx(losses_of(two), rel=1e-3)
    key = "context.core.bases_ck"
    # Rounding grows from step to step; the bases themselves move by 0.01 and more (see above).
    torch.testing.assert_close(weights_of(one)[key], weights_of(two)[key], atol=5e-4, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("context", ["danet", "encnet"])
def test_losses_of_their_own_are_the_same_in_two_processes(context: str, tmp_path: Path) -> None:
    # Only the rounding of sums differs, and grows from step to step.
    one, two = in_one_and_in_two(context, tmp_path)
    assert losses_of(one)[0] == pytest.approx(losses_of(two)[0], rel=1e-6)
    assert losses_of(one) == pytest.approx(losses_of(two), rel=1e-3)
    assert losses_of(two)[-1] < losses_of(two)[0]


def in_one_and_in_two(context: str, directory: Path) -> tuple[Path, Path]:
    """Run the same short training by one process and by two, and return their directories."""
    settings = [f"--set=model.context={context}", "--set=model.options.dropout=0"]
    settings += ["--set=model.aux=false", "--set=train.steps=6"]
    one, two = directory / "one", directory / "two"
    run(command(one, *settings))
    run(command(two, *settings), processes=2)
    return one, two


def losses_of(directory: Path) -> list[float]:
    return [line["loss"] for line in read_log(directory) if line["kind"] == "train"]


def weights_of(directory: Path) -> dict[str, torch.Tensor]:
    weights = last(directory)["model"]
    assert isinstance(weights, dict)
    return weights
