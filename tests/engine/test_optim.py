"""Learning rates, and the running mean of the weights."""

from pathlib import Path

import pytest
import torch
from torch import nn

from reconet.engine.checkpoint import LogState, load_last, save_last
from reconet.engine.optim import Ema, learning_rate, make_optimizer, poly, set_lr
from reconet.models.segmenter import build_model
from tests.engine.steps import CLASSES, recipe, run, state_of


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


def test_sgd_without_new_settings_has_the_groups_of_before() -> None:
    model = build_model(recipe(), CLASSES)
    optimizer = make_optimizer(model, recipe().optim)
    assert isinstance(optimizer, torch.optim.SGD)
    first, second = optimizer.param_groups
    assert [id(p) for p in first["params"]] == [id(p) for p in model.backbone.parameters()]
    assert {first["weight_decay"], second["weight_decay"]} == {recipe().optim.weight_decay}


def test_the_rate_rises_in_the_warm_up_and_then_follows_the_decay() -> None:
    optim = recipe("optim.lr=1", "optim.warmup=4", "optim.power=1").optim
    rates = [learning_rate(optim, step, 10) for step in range(10)]
    assert rates[:4] == pytest.approx([0.25 * 1.0, 0.5 * 0.9, 0.75 * 0.8, 1.0 * 0.7])
    assert rates[4:] == pytest.approx([0.6, 0.5, 0.4, 0.3, 0.2, 0.1])


def test_earlier_layers_learn_slower_by_the_layer_decay() -> None:
    chosen = recipe("optim.lr=1", "optim.layer_decay=0.5", "optim.head_lr_factor=3")
    model = build_model(chosen, CLASSES)
    optimizer = make_optimizer(model, chosen.optim)
    set_lr(optimizer, chosen.optim, step=0, steps=10)
    assert [group["lr"] for group in optimizer.param_groups] == [
        1 / 32,
        1 / 16,
        1 / 8,
        0.25,
        0.5,
        3,
    ]
    stem = {id(p) for n, p in model.backbone.named_parameters() if n.startswith(("conv1", "bn1"))}
    assert {id(p) for p in optimizer.param_groups[0]["params"]} == stem
    assert sum(len(g["params"]) for g in optimizer.param_groups) == len(list(model.parameters()))


def test_adamw_decays_weights_but_neither_norms_nor_biases() -> None:
    chosen = recipe("optim.kind=adamw", "optim.weight_decay=0.05", "optim.momentum=0.8")
    model = build_model(chosen, CLASSES)
    optimizer = make_optimizer(model, chosen.optim)
    assert isinstance(optimizer, torch.optim.AdamW)
    assert {group["betas"] for group in optimizer.param_groups} == {(0.8, 0.999)}
    for group in optimizer.param_groups:
        assert {p.ndim > 1 for p in group["params"]} == {group["weight_decay"] == 0.05}
    assert sum(len(g["params"]) for g in optimizer.param_groups) == len(list(model.parameters()))


def test_adamw_resumes_in_the_same_bits(tmp_path: Path) -> None:
    chosen = recipe("optim.kind=adamw", "optim.lr=0.001", "optim.warmup=3", "optim.layer_decay=0.9")
    straight = state_of(chosen)
    losses = run(straight, chosen, 6)
    stopped = state_of(chosen)
    assert run(stopped, chosen, 3) == losses[:3]
    save_last(tmp_path / "last.pt", stopped, LogState())
    resumed = state_of(chosen)
    load_last(tmp_path / "last.pt", resumed)
    assert run(resumed, chosen, 6, start=3) == losses[3:]
    for one, other in zip(straight.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)
