"""What an explanation computes: ranks and maps against slow versions and the forward pass."""

from typing import Any

import pytest
import torch
from torch import Tensor

from reconet import CONTEXTS, Segmenter
from reconet.errors import RecipeError
from reconet.explain import attention_maps, choose_ranks, measure_contributions, shows_maps
from reconet.explain.contexts import gathered_part, norms
from reconet.models.context.low_rank import Factors, outer_planes
from reconet.models.decompose import decompose
from tests.factories import paper_core, tiny_model

CLASSES = ("a", "b", "c")
SHOWN = sorted(name for name, kind in CONTEXTS.items() if shows_maps(kind))


def attentive_model(context: str, **options: Any) -> Segmenter:
    """Make a network in eval mode with random weights in its attention."""
    model = tiny_model(context, **options)
    with torch.no_grad():
        for name, value in model.context.named_parameters():
            if name.endswith("gamma") or "out" in name or "restore" in name or "query" in name:
                value.normal_(std=0.5)
    return model.eval()


def outer_product(factors: Factors, rank: int) -> Tensor:
    weight_r, channel_brc, plane_brhw = factors
    return weight_r[rank] * channel_brc[0, rank][:, None, None] * plane_brhw[0, rank]


def test_the_norm_of_a_rank_is_that_of_its_tensor() -> None:
    factors = Factors(torch.rand(3), torch.rand(1, 3, 4), torch.rand(1, 3, 5, 6))
    slow_r = torch.stack([outer_product(factors, rank).double().norm() for rank in range(3)])
    torch.testing.assert_close(norms(factors), slow_r, rtol=1e-6, atol=0)


def test_contributions_are_what_a_network_without_the_rank_computes_otherwise() -> None:
    model = attentive_model("reconet", rank=3)
    core = paper_core(model)
    with torch.no_grad():
        core.rank_logits_r.copy_(torch.tensor([0.0, 3.0, 1.0]))
        model.classify.weight.normal_()
    image = torch.randint(0, 256, (1, 3, 64, 80), dtype=torch.uint8)
    given = measure_contributions(decompose(model, image))
    with torch.no_grad():
        whole = model.coarse(image)[0]
        plain = core.forward
        factors = core.factors
        for rank in range(3):
            part = lambda x, rank=rank: plain(x) - x * outer_product(factors(x), rank)  # noqa: E731
            core.forward = part  # type: ignore[method-assign]
            off = model.coarse(image)[0]
            change = whole - off
            logit = (change - change.mean(0)).mean((1, 2))
            torch.testing.assert_close(given.logit_rk[rank], logit, rtol=1e-3, atol=1e-5)
            probability = (whole.softmax(0) - off.softmax(0)).mean((1, 2))
            torch.testing.assert_close(
                given.probability_rk[rank], probability, rtol=1e-3, atol=1e-5
            )
            before, after = whole.argmax(0), off.argmax(0)
            for number in range(3):
                had = before == number
                lost = (had & (after != number)).sum() / had.sum().clamp(min=1)
                torch.testing.assert_close(given.changed_rk[rank, number], lost)
    assert given.logit_rk.abs().max() > 1e-3


@pytest.mark.parametrize(
    ("text", "expected"), [("2", (3, 1)), ("4", (3, 1, 0, 2)), ("2,0", (2, 0)), ("1,", (1,))]
)
def test_ranks_are_chosen_by_number_or_by_name(text: str, expected: tuple[int, ...]) -> None:
    assert choose_ranks(torch.tensor([0.2, 0.3, 0.1, 0.4]), text) == expected


@pytest.mark.parametrize("text", ["0", "5", "x", "1,9", "", "-1", "1,x", "1,1,2"])
def test_ranks_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(RecipeError, match=r"rank"):
        choose_ranks(torch.ones(4) / 4, text)


def test_the_part_that_a_mask_covers_is_that_of_a_flat_one() -> None:
    row_brh = torch.tensor([[[0.5, 0.5, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]]])
    column_brw = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    part_r = gathered_part(outer_planes(row_brh, column_brw))
    torch.testing.assert_close(part_r, torch.tensor([0.25, 1.0]).double())


def test_these_contexts_show_their_attention() -> None:
    expected = {
        *("a2net", "acfnet", "apcnet", "asymmetric", "cbam", "ccnet", "cfnet", "danet", "emanet"),
        *("encnet", "latentgnn", "nonlocal", "psanet", "senet"),
    }
    assert expected <= set(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_every_map_is_finite_and_what_is_said_of_its_sums_is_true(name: str) -> None:
    model = attentive_model(name)
    image = torch.randint(0, 256, (1, 3, 80, 64), dtype=torch.uint8)
    before = model.coarse(image)
    found = attention_maps(model, name, image, (0.9, 0.2), CLASSES)
    assert torch.equal(model.coarse(image), before)  # hooks are gone, nothing was changed
    values = [value for _, value in (*found.maps, *found.gates)]
    assert values
    assert all(v.isfinite().all() and v.min() >= 0 for v in values)
    if found.from_point and name != "apcnet":
        together = name in {"asymmetric"}
        sums = (
            [sum(v.sum().item() for v in values)] if together else [v.sum().item() for v in values]
        )
        assert sums == pytest.approx([1.0] * len(sums), rel=1e-4)
    assert all(v.max() <= 1 for v in values) or name == "latentgnn"


@pytest.mark.parametrize("name", ["nonlocal", "danet", "ccnet"])
def test_what_a_point_sees_is_the_mean_of_values_by_its_weights(name: str) -> None:
    model = attentive_model(name, **({"recurrence": 1} if name == "ccnet" else {}))
    core: Any = model.context.core
    caught: list[tuple[Tensor, Tensor]] = []
    hook = core.register_forward_hook(lambda part, given, result: caught.append((given[0], result)))
    image = torch.randint(0, 256, (1, 3, 80, 64), dtype=torch.uint8)
    map_hw = attention_maps(model, name, image, (0.9, 0.2), CLASSES).maps[0][1]
    hook.remove()
    x_bchw, y_bchw = caught[0]
    row, column = int(0.2 * y_bchw.shape[2]), int(0.9 * y_bchw.shape[3])
    mean_c = (core.value(x_bchw) * map_hw).sum((2, 3))[:, :, None, None]
    added = core.out(mean_c) if name == "nonlocal" else core.gamma * mean_c
    expected_c = x_bchw[0, :, row, column] + added[0, :, 0, 0]
    torch.testing.assert_close(y_bchw[0, :, row, column], expected_c, rtol=1e-4, atol=1e-5)
    assert added.abs().max() > 1e-3


def test_a_context_without_attention_is_refused_with_a_list_of_those_that_have_one() -> None:
    image = torch.zeros(1, 3, 64, 64, dtype=torch.uint8)
    with pytest.raises(RecipeError, match="'fcn' has no attention to explain; these have: reconet"):
        attention_maps(attentive_model("fcn"), "fcn", image, (0.5, 0.5), CLASSES)
