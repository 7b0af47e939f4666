"""Learning rates, and the running mean of the weights."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from reconet.engine import (
    Ema,
    LogState,
    learning_rate,
    load_last,
    make_optimizer,
    save_last,
)
from reconet.models import Segmenter, build_model
from tests.engine.steps import CLASSES, recipe, run, state_of


def test_the_rate_follows_the_formula_from_the_base_rate_to_zero() -> None:
    optim = recipe("optim.lr=0.02").optim
    rates = [learning_rate(optim, step, 100) for step in (0, 75, 100, 101)]
    assert rates == pytest.approx([0.02, 0.02 * 0.25**0.9, 0, 0])


def factors(*settings: str) -> tuple[list[float], list[int], Segmenter]:
    """Return how fast each group learns, how many parameters it has, and their network."""
    chosen = recipe(*settings)
    model = build_model(chosen, CLASSES)
    groups = make_optimizer(model, chosen.optim).param_groups
    counts = [len(group["params"]) for group in groups]
    assert sum(counts) == len(list(model.parameters()))
    return [group["lr_factor"] for group in groups], counts, model


def test_fresh_layers_and_the_core_have_rates_of_their_own() -> None:
    rates, counts, model = factors("optim.head_lr_factor=10")
    assert rates == [1, 10]
    assert counts[0] == len(list(model.backbone.parameters()))
    rates, counts, model = factors("optim.head_lr_factor=2", "optim.core_lr_factor=10")
    assert rates == [1, 2, 20]
    assert model.context.core is not None
    assert counts[2] == len(list(model.context.core.parameters()))


def test_fresh_layers_learn_faster_and_the_rate_decays() -> None:
    chosen = recipe("optim.lr=0.5", "optim.head_lr_factor=10", "train.steps=40")
    state = state_of(chosen)
    run(state, chosen, 1)
    assert [group["lr"] for group in state.optimizer.param_groups] == [0.5, 5.0]
    run(state, chosen, 21, start=20)
    assert state.optimizer.param_groups[0]["lr"] == pytest.approx(0.5 * 0.5**0.9)


def test_the_running_mean_of_the_weights_follows_its_formula() -> None:
    net: Any = nn.Linear(2, 2)
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
    rates, _, _ = factors("optim.layer_decay=0.5", "optim.head_lr_factor=3")
    assert rates == [1 / 32, 1 / 16, 1 / 8, 0.25, 0.5, 3]


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
