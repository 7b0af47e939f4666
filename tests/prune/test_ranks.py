"""The kept ranks do exactly what they did before."""

import pytest
import torch
from torch import Tensor

from reconet.models import TrainedNetwork
from reconet.models.context.reconet import TensorReconstruction
from reconet.models.context.reconet_plus import FragmentReconstruction
from reconet.models.decompose import decompose, low_rank_core
from reconet.prune import best_ranks, keep_ranks, rank_importance
from tests.factories import paper_core, tiny_network, tiny_recipe

KEPT = (0, 2, 3)
CONTEXTS = ("reconet", "reconet_plus")


def network_with_unequal_ranks(context: str = "reconet") -> TrainedNetwork:
    """Build a network of rank 5 whose ranks have different weights."""
    trained = tiny_network(
        tiny_recipe("model.rank=5", f"model.context={context}"),
        classes=("a", "b", "c"),
        palette=((0, 0, 0),) * 3,
    )
    logits_r = torch.tensor([0.0, -1.0, 2.0, 1.0, -4.0])
    core = low_rank_core(trained.model)
    with torch.no_grad():
        if isinstance(core, TensorReconstruction):
            core.rank_logits_r.copy_(logits_r)
        elif isinstance(core, FragmentReconstruction):
            core.weight_r.copy_(logits_r.exp())
            for layer in core.masks.children():
                layer.get_parameter("weight").normal_()
            core.bias_rc.uniform_()
        trained.model.classify.weight.normal_()
    return trained


def random_image() -> Tensor:
    return torch.randint(0, 256, (1, 3, 96, 64), dtype=torch.uint8)


def test_the_kept_ranks_keep_their_lambda() -> None:
    before = network_with_unequal_ranks()
    old = paper_core(before.model).rank_logits_r.softmax(0)[list(KEPT)]
    core = paper_core(keep_ranks(before, KEPT).model)
    assert core.weight_sum is not None
    torch.testing.assert_close(core.rank_logits_r.softmax(0) * core.weight_sum, old)
    assert core.weight_sum < 1


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("size", [(64, 64), (96, 64)])
def test_a_pruned_network_is_the_old_one_with_the_other_ranks_off(
    size: tuple[int, int], context: str
) -> None:
    before, image = network_with_unequal_ranks(context), random_image()[:, :, : size[0], : size[1]]
    keep_r = torch.tensor([rank in KEPT for rank in range(5)])
    expected = decompose(before.model, image).logits(keep_r)
    with torch.no_grad():
        got = keep_ranks(before, KEPT).model.coarse(image)
        whole = before.model.coarse(image)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(got, whole, atol=1e-4)


@pytest.mark.parametrize("context", CONTEXTS)
def test_pruning_twice_is_pruning_once_to_what_is_left(context: str) -> None:
    before, image = network_with_unequal_ranks(context), random_image()
    twice, once = keep_ranks(keep_ranks(before, KEPT), (0, 2)), keep_ranks(before, (0, 3))
    with torch.no_grad():
        torch.testing.assert_close(twice.model.coarse(image), once.model.coarse(image))


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_importance_of_a_rank_is_the_change_of_the_logits_without_it(context: str) -> None:
    before = network_with_unequal_ranks(context)
    images = [random_image() for _ in range(2)]
    squares = torch.zeros(5)
    for image in images:
        with torch.no_grad():
            whole = before.model.coarse(image)
            for rank in range(5):
                others = [other for other in range(5) if other != rank]
                off = keep_ranks(before, others).model.coarse(image)
                change = (whole - off) - (whole - off).mean(1, keepdim=True)
                squares[rank] += change.square().mean() / 2
    got_r = rank_importance(before.model, images).float()
    torch.testing.assert_close(got_r, squares.sqrt(), rtol=1e-2, atol=1e-6)
    assert 4 not in best_ranks(got_r, 4)  # its lambda is close to 0


def test_the_best_ranks_come_in_the_networks_order() -> None:
    assert best_ranks(torch.tensor([0.1, 0.5, 0.2, 0.4]), 3) == (1, 2, 3)
