"""An image's way through a RecoNet, taken apart: everything against the whole network."""

import pytest
import torch
from torch import Tensor

from reconet.errors import RecipeError
from reconet.models.decompose import Inside, look_inside, reconstruction
from reconet.models.fold import fold_batchnorm
from reconet.models.segmenter import Segmenter, create_model

RANK = 5


def lively(**options: object) -> Segmenter:
    """A small network with uneven lambdas, whose norms have seen something."""
    model = create_model(
        "reconet",
        backbone="resnet18",
        width=0.125,
        crop=(64, 96),
        num_classes=3,
        rank=RANK,
        **options,  # type: ignore[arg-type]
    )
    with torch.no_grad():
        reconstruction(model).rank_logits_r.copy_(torch.linspace(-1, 1, RANK))
        model.classify.weight.normal_()
        model.train()(torch.rand(2, 3, 64, 96))
    return model.eval()


def random_image(height: int = 80, width: int = 64) -> Tensor:
    return torch.randint(0, 256, (1, 3, height, width), dtype=torch.uint8)


@pytest.fixture(scope="module")
def seen() -> tuple[Segmenter, Tensor, Inside]:
    torch.manual_seed(0)
    model, image = lively(), random_image()
    return model, image, look_inside(model, image)


def silenced(model: Segmenter, image: Tensor, gain_r: Tensor) -> Tensor:
    """The slow way: the whole network with its lambdas changed."""
    core, plain = reconstruction(model), type(reconstruction(model)).factors

    def factors(x_bchw: Tensor) -> object:
        whole = plain(core, x_bchw)
        return whole._replace(weight_r=whole.weight_r * gain_r)

    core.factors = factors  # type: ignore[assignment]
    try:
        with torch.no_grad():
            return model.coarse(image)
    finally:
        del core.factors


def test_with_all_ranks_the_logits_are_the_networks(seen: tuple[Segmenter, Tensor, Inside]) -> None:
    model, image, inside = seen
    assert inside.rank == RANK
    with torch.no_grad():
        expected = model.coarse(image)
    torch.testing.assert_close(inside.logits(torch.ones(RANK)), expected, rtol=1e-4, atol=1e-5)


def test_sub_attentions_sum_to_the_attention(seen: tuple[Segmenter, Tensor, Inside]) -> None:
    *_, inside = seen
    parts = torch.stack([inside.sub_attention(i) for i in range(RANK)])
    torch.testing.assert_close(parts.sum(0), inside.attention())


def test_a_sub_attention_is_an_outer_product(seen: tuple[Segmenter, Tensor, Inside]) -> None:
    *_, inside = seen
    weight_r, c, h, w = inside.factors
    by_hand = weight_r[2] * torch.einsum("c,h,w->chw", c[0, 2], h[0, 2], w[0, 2])
    torch.testing.assert_close(inside.sub_attention(2)[0], by_hand)


def test_heat_is_the_mean_of_the_weighted_map(seen: tuple[Segmenter, Tensor, Inside]) -> None:
    *_, inside = seen
    attention = inside.sub_attention(3)
    torch.testing.assert_close(inside.heat(3), (attention * inside.x_bchw)[0].mean(0))
    torch.testing.assert_close(inside.attention_heat(3), attention[0].mean(0))


@pytest.mark.parametrize("off", [0, RANK - 1])
def test_a_rank_switched_off_is_a_network_whose_lambda_is_zero_there(
    off: int, seen: tuple[Segmenter, Tensor, Inside]
) -> None:
    model, image, inside = seen
    keep_r = torch.arange(RANK) != off
    expected = silenced(model, image, keep_r.float())
    torch.testing.assert_close(inside.logits(keep_r), expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(inside.logits(keep_r), inside.logits(torch.ones(RANK)), atol=1e-4)


def test_gains_are_factors_of_lambda(seen: tuple[Segmenter, Tensor, Inside]) -> None:
    model, image, inside = seen
    gain_r = torch.tensor([2.0, 0.0, 0.5, 1.0, 3.0])
    expected = silenced(model, image, gain_r)
    torch.testing.assert_close(inside.logits(gain_r), expected, rtol=1e-4, atol=1e-5)


def test_parts_and_rest_sum_to_the_pre_activation(seen: tuple[Segmenter, Tensor, Inside]) -> None:
    *_, inside = seen
    parts = torch.stack([inside.part(i) for i in range(RANK)]).sum(0)
    torch.testing.assert_close(parts, inside.contribution(torch.ones(RANK)), rtol=1e-4, atol=1e-5)


def test_it_works_without_global_pooling_and_on_a_folded_network() -> None:
    for model in (lively(gpm=False), fold_batchnorm(lively())):
        image = random_image(64, 96)
        with torch.no_grad():
            expected = model.coarse(image)
        got = look_inside(model, image).logits(torch.ones(RANK))
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_several_images_at_once_are_seen_as_each_alone() -> None:
    model, images = lively(), torch.cat([random_image(), random_image()])
    keep_r = torch.tensor([True, False, True, True, False])
    together = look_inside(model, images).logits(keep_r)
    alone = torch.cat([look_inside(model, one[None]).logits(keep_r) for one in images])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


def test_a_network_without_ranks_is_refused() -> None:
    plain = create_model("fcn", backbone="resnet18", width=0.125, num_classes=3).eval()
    with pytest.raises(RecipeError, match="FCN has no ranks"):
        look_inside(plain, random_image())
    without = create_model(
        "reconet", backbone="resnet18", width=0.125, num_classes=3, tgm_trm=False
    )
    with pytest.raises(RecipeError, match="tgm_trm=false"):
        look_inside(without.eval(), random_image())


def test_a_rank_that_is_not_there_is_refused(seen: tuple[Segmenter, Tensor, Inside]) -> None:
    with pytest.raises(RecipeError, match="no rank 5: they go from 0 to 4"):
        seen[2].heat(RANK)
