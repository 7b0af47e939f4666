"""What each rank is and does: the numbers against slow versions."""

import pytest
import torch

from reconet.errors import RecipeError
from reconet.explain import compute
from reconet.models.context.low_rank import Factors
from reconet.models.decompose import decompose
from tests.explain.networks import attentive_model, outer_product
from tests.factories import paper_core


def test_the_norm_of_a_rank_is_that_of_its_tensor() -> None:
    factors = Factors(torch.rand(3), torch.rand(1, 3, 4), torch.rand(1, 3, 5, 6))
    slow_r = torch.stack([outer_product(factors, rank).double().norm() for rank in range(3)])
    torch.testing.assert_close(compute.norms(factors), slow_r, rtol=1e-6, atol=0)


def test_the_largest_are_counted_until_the_share_is_reached() -> None:
    size_n = torch.tensor([1.0, 5.0, 3.0, 1.0])
    shares = (0.4, 0.5, 0.8, 0.81, 1.0)
    assert [compute.count_to_reach(size_n, share) for share in shares] == [1, 1, 2, 3, 4]
    assert (
        compute.count_to_reach(torch.ones(10), 0.9) == 9
    )  # reached exactly, whatever rounding says


def test_contributions_are_what_a_network_without_the_rank_computes_otherwise() -> None:
    model = attentive_model("reconet", rank=3)
    core = paper_core(model)
    with torch.no_grad():
        core.rank_logits_r.copy_(torch.tensor([0.0, 3.0, 1.0]))
        model.classify.weight.normal_()
    image = torch.randint(0, 256, (1, 3, 64, 80), dtype=torch.uint8)
    given = compute.measure_contributions(decompose(model, image))
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
    assert compute.choose_ranks(torch.tensor([0.2, 0.3, 0.1, 0.4]), text) == expected


@pytest.mark.parametrize("text", ["0", "5", "x", "1,9", "", "-1", "1,x", "1,1,2"])
def test_ranks_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(RecipeError, match=r"rank"):
        compute.choose_ranks(torch.ones(4) / 4, text)


def test_likeness_is_one_for_the_same_pattern_and_zero_for_a_constant() -> None:
    map_hw = torch.rand(5, 7)
    assert compute.likeness(map_hw, 3 * map_hw + 1) == pytest.approx(1)
    assert compute.likeness(map_hw, torch.ones(5, 7)) == 0
