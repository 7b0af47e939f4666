"""Learning rates, and the running mean of the weights."""

import pytest
import torch
from torch import nn

from reconet.engine.optim import Ema, make_optimizer, poly, set_lr
from reconet.models.segmenter import build_model
from tests.engine.steps import CLASSES, recipe


def test_poly_starts_at_the_base_rate_and_ends_at_zero() -> None:
    assert poly(0, steps=100, lr=0.02) == 0.02
    assert poly(100, steps=100, lr=0.02) == 0.0
    assert poly(101, steps=100, lr=0.02) == 0.0


def test_poly_follows_the_formula_in_between() -> None:
    assert poly(75, steps=100, lr=1.0) == pytest.approx(0.25**0.9)
    assert poly(75, steps=100, lr=1.0, power=2.0) == pytest.approx(0.0625)


def test_fresh_layers_learn_faster_and_the_rate_decays() -> None:
    chosen = recipe("optim.lr=0.5", "optim.head_lr_factor=10")
    model = build_model(chosen, CLASSES)
    optimizer = make_optimizer(model, chosen.optim)
    assert set_lr(optimizer, chosen.optim, step=0, steps=10) == 0.5
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 5.0]
    set_lr(optimizer, chosen.optim, step=5, steps=10)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.5 * 0.5**0.9)
    counts = [len(group["params"]) for group in optimizer.param_groups]
    assert counts[0] == len(list(model.backbone.parameters()))
    assert sum(counts) == len(list(model.parameters()))


def test_the_core_has_a_speed_of_its_own_where_the_recipe_says_so() -> None:
    chosen = recipe("optim.lr=0.5", "optim.head_lr_factor=2", "optim.core_lr_factor=10")
    model = build_model(chosen, CLASSES)
    core = model.context.core
    assert core is not None
    optimizer = make_optimizer(model, chosen.optim)
    set_lr(optimizer, chosen.optim, step=0, steps=10)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 1.0, 10.0]
    fast = {id(p) for p in optimizer.param_groups[2]["params"]}
    assert fast == {id(p) for p in core.parameters()}
    assert sum(len(g["params"]) for g in optimizer.param_groups) == len(list(model.parameters()))


def test_the_running_mean_of_the_weights_follows_its_formula() -> None:
    net = nn.Linear(2, 2)
    ema = Ema(net, decay=0.9)
    expected = net.weight.detach().clone()
    for value in (1.0, -2.0, 3.0):
        with torch.no_grad():
            net.weight.fill_(value)
        ema.update(net)
        expected = 0.9 * expected + 0.1 * value
    torch.testing.assert_close(ema.model.state_dict()["weight"], expected)
