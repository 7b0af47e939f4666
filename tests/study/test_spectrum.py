"""The ranks that an attention uses, against attentions that are built and unfolded."""

import pytest
import torch

from reconet.data import open_dataset
from reconet.models.context.low_rank import reconstruct
from reconet.models.context.reconet import RecoNet, TensorReconstruction
from reconet.models.segmenter import build_model
from reconet.recipes.overrides import apply_overrides
from reconet.study.spectrum import (
    count_for_share,
    energy_shares,
    measure_spectrum,
    variation_between_images,
)
from tests.factories import tiny_recipe

RECIPE = tiny_recipe(
    "data.options.size=[64, 96]",
    "data.crop=[64, 96]",
    "data.base_size=96",
    "data.options.val=3",
    "model.rank=5",
)


def test_needed_counts_the_largest_values() -> None:
    value_bn = torch.tensor([[3.0, 1.0, 0.0], [1.0, 1.0, 1.0]]).double()
    assert count_for_share(value_bn, 0.90).tolist() == [1, 3]
    assert count_for_share(value_bn, 0.99).tolist() == [2, 3]
    torch.testing.assert_close(energy_shares(value_bn)[0], torch.tensor([0.9, 0.1, 0]).double())


def test_the_spectrum_is_that_of_the_unfolded_attention() -> None:
    model = build_model(RECIPE, 14).eval()
    context = model.context
    assert isinstance(context, RecoNet)
    core = context.core
    assert isinstance(core, TensorReconstruction)
    torch.nn.init.normal_(core.rank_logits_r)
    dataset = open_dataset("scenes", "val", None, RECIPE.data.options)
    found = measure_spectrum(model, dataset, RECIPE.data, torch.device("cpu"))
    assert found is not None
    ranks: dict[str, list[float]] = {"channel": [], "row": [], "column": []}
    for index in range(3):
        image_bchw = torch.from_numpy(dataset[index].image_hwc).permute(2, 0, 1)[None]
        with torch.no_grad():
            x_bchw = context.reduce(model.backbone(model.normalise(image_bchw)).c4)
            attention_chw = reconstruct(core.factors(x_bchw))[0].double()
        for axis, name in enumerate(ranks):
            value_n = torch.linalg.svdvals(attention_chw.movedim(axis, 0).flatten(1))
            share_n = value_n / value_n.sum()
            ranks[name].append(torch.special.entr(share_n).sum().exp().item())
    for name, values in ranks.items():
        assert found.effective[name] == pytest.approx(sum(values) / 3, rel=1e-3)
    share_r = core.rank_logits_r.detach().double().softmax(0)
    by_hand = torch.special.entr(share_r).sum().exp().item()
    assert found.effective["lambda"] == pytest.approx(by_hand, rel=1e-5)


def test_an_attention_that_is_the_same_for_all_images_has_no_spread_between_them() -> None:
    attention_chw = torch.rand(2, 3, 4)
    assert variation_between_images(torch.stack([attention_chw, attention_chw])) == 0
    assert variation_between_images(torch.stack([attention_chw, 3 * attention_chw])) > 0.4


def test_places_that_differ_count_though_their_means_agree() -> None:
    left_chw = torch.tensor([[[1.0, 0.0]]])
    images_bchw = torch.stack([left_chw, left_chw.flip(2)])
    assert variation_between_images(images_bchw) == pytest.approx(1.0)


def test_a_context_without_reconstruction_has_no_spectrum() -> None:
    model = build_model(apply_overrides(RECIPE, ["model.context=fcn"]), 14)
    dataset = open_dataset("scenes", "val", None, RECIPE.data.options)
    assert measure_spectrum(model, dataset, RECIPE.data, torch.device("cpu")) is None
