"""The training loop, in this process."""

import math

import pytest
import torch
from torch import Tensor, nn

from reconet.engine import training_steps
from reconet.engine.loop import seed_step
from reconet.errors import TrainingError
from tests.engine.steps import ALONE, Batch, fixed_batch, recipe, run, state_of


def without_batchnorm(model: nn.Module) -> None:
    for module in model.modules():
        for name, child in module.named_children():
            if isinstance(child, nn.BatchNorm2d):
                setattr(module, name, nn.Identity())


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("train.precision=bf16",),
        ("train.channels_last=true",),
        ("loss.ohem=0.7", "loss.ohem_min_kept=100"),
        ("optim.clip=1",),
        ("model.context=fcn",),
        ("loss.cross_entropy=0", "loss.focal=1"),
    ],
)
def test_training_fits_one_batch(settings: tuple[str, ...]) -> None:
    chosen = recipe(*settings, "optim.lr=0.1")
    losses = run(state_of(chosen), chosen, 40)
    assert losses[-1] < 0.7 * losses[0]


def test_training_fits_the_regions_of_one_batch() -> None:
    # Their loss is 2 at most, and falls more slowly than a cross entropy.
    chosen = recipe("loss.cross_entropy=0", "loss.dice=1", "loss.lovasz=1", "optim.lr=0.1")
    losses = run(state_of(chosen), chosen, 40)
    assert losses[-1] < losses[0] - 0.2


@pytest.mark.parametrize(
    "terms",
    [
        (),
        ("loss.focal=1", "loss.class_weights=[1, 2, 3, 4, 5]"),
        ("loss.cross_entropy=0", "loss.dice=1", "loss.stride=2"),
        ("loss.lovasz=1", "loss.ohem=0.3", "loss.ohem_min_kept=50"),
    ],
)
def test_accumulation_gives_the_gradient_of_the_whole_batch(terms: tuple[str, ...]) -> None:
    # Without batch norm, whose statistics are those of one micro-batch.
    gradients = []
    image, label = fixed_batch()
    label[0, :60], label[1, :7], label[3] = 255, 255, 255  # few labels, and an image of void
    for settings in ((), ("train.micro_batch=3",), ("train.micro_batch=1",)):
        chosen = recipe(*settings, *terms, "model.options.dropout=0", "model.aux=false")
        state = state_of(chosen)
        without_batchnorm(state.model)
        stream = [Batch(0, image, label, ("a", "b", "c", "d"), ())]
        next(training_steps(state, stream, chosen, 40, ALONE))
        gradients.append([p.grad.clone() for p in state.model.parameters() if p.grad is not None])
    for other in gradients[1:]:
        for one, two in zip(gradients[0], other, strict=True):
            torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("context", ["danet", "acfnet", "encnet"])
def test_losses_of_contexts_are_those_of_their_parts(context: str) -> None:
    # Without batch norm, whose statistics are those of one micro-batch.
    image, label = fixed_batch()
    label[0, :60], label[1, :7], label[3] = 255, 255, 255
    own = []
    for micro in ("null", "3", "1"):
        chosen = recipe(f"model.context={context}", f"train.micro_batch={micro}", "model.aux=false")
        state = state_of(chosen)
        without_batchnorm(state.model)
        for module in state.model.modules():
            if isinstance(module, nn.Dropout | nn.Dropout2d):
                module.p = 0.0
        stream = [Batch(0, image, label, ("a", "b", "c", "d"), ())]
        own.append(float(next(training_steps(state, stream, chosen, 40, ALONE)).loss))
    assert own == pytest.approx([own[0]] * 3, rel=1e-5)


def test_a_loss_that_is_no_number_stops_with_step_rate_and_images() -> None:
    chosen = recipe()
    state = state_of(chosen)
    with torch.no_grad():
        state.model.classify.bias.fill_(math.nan)  # type: ignore[union-attr]
    with pytest.raises(TrainingError, match=r"nan at step 0 with learning rate 0\.02.*a, b, c, d"):
        run(state, chosen, 3)


def test_dropout_depends_on_seed_step_and_rank_alone() -> None:
    def draw(*key: int) -> Tensor:
        seed_step(*key)
        return torch.rand(4)

    assert torch.equal(draw(0, 5, 1), draw(0, 5, 1))
    for other in [(1, 5, 1), (0, 6, 1), (0, 5, 2), (0, 51, 0)]:
        assert not torch.equal(draw(0, 5, 1), draw(*other))
