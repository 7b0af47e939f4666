from pathlib import Path
from typing import Any

import pytest
import torch

import reconet
from reconet.errors import RecipeError
from reconet.models.context.reconet import RecoNet
from reconet.models.layers import resize
from reconet.models.segmenter import build_model, create_model
from reconet.recipes import find_recipe, override

SMALL: dict[str, Any] = {"backbone": "resnet18", "width": 0.125, "num_classes": 3, "crop": 64}


def test_uint8_and_float_images_give_the_same_logits() -> None:
    model = create_model("reconet", **SMALL).eval()
    bytes_bchw = torch.randint(0, 256, (1, 3, 64, 64), dtype=torch.uint8)
    torch.testing.assert_close(model(bytes_bchw).main_bkhw, model(bytes_bchw / 255).main_bkhw)


def test_normalisation_is_that_of_imagenet_and_happens_inside() -> None:
    model = create_model("plain", **SMALL)
    grey = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1).expand(1, 3, 2, 2)
    torch.testing.assert_close(model.normalise(grey), torch.zeros(1, 3, 2, 2))
    one_std_up = grey + torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
    torch.testing.assert_close(model.normalise(one_std_up), torch.ones(1, 3, 2, 2))


def test_the_auxiliary_head_can_be_left_out() -> None:
    model = create_model("fcn", **SMALL, aux=False)
    assert model.train()(torch.rand(1, 3, 64, 64)).aux_bkhw is None
    assert not [name for name in model.state_dict() if name.startswith("aux")]


def test_the_package_offers_create_model_without_importing_torch_first() -> None:
    assert reconet.create_model is create_model
    assert set(reconet.__all__) <= set(dir(reconet))
    with pytest.raises(AttributeError, match="no attribute 'creat_model'"):
        _ = reconet.creat_model


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "reconets"}, r"unknown context 'reconets'\. Did you mean 'reconet'"),
        ({"rnk": 3}, r"unknown option of context 'reconet': 'rnk'\. Did you mean 'rank'"),
        ({"rank": 0}, r"option reconet\.rank: input should be greater than 0, got 0"),
        ({"rank": "many"}, r"option reconet\.rank: .*got 'many'"),
        ({"rank": True}, r"option reconet\.rank: takes a number, got True"),
        ({"dropout": 2.0}, r"option reconet\.dropout: .*less than or equal to 1"),
        ({"num_classes": 0}, "num_classes must be from 1 to 254"),
        ({"num_classes": 255}, "num_classes must be from 1 to 254, as labels have 8 bits; got 255"),
        ({"stem": "depe"}, r"stem: .*'deep', 'deep32' or 'plain', got 'depe'"),
        ({"stride_on": "1"}, r"stride_on: .*'3x3' or '1x1', got '1'"),
        ({"crop": 0}, r"crop\.0: .*greater than 0"),
        ({"crop": (64, 64, 64)}, "crop: "),
        ({"width": float("nan")}, "width: "),
    ],
)
def test_what_cannot_be_built_says_why(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        create_model(**{"name": "reconet", **SMALL, **arguments})


def test_a_recipe_builds_its_network_with_rank_and_options() -> None:
    recipe = override(find_recipe("scenes/tiny"), "model.rank", "5")
    recipe = override(recipe, "model.options.gpm", "false")
    context = build_model(recipe, 3).context
    assert isinstance(context, RecoNet)
    assert context.core is not None
    assert context.core.rank_logits_r.numel() == 5
    assert context.pool is None


def test_the_auxiliary_head_reads_c3_with_dropout() -> None:
    model = create_model("plain", **SMALL)
    assert model.aux is not None
    assert model.aux.dropout.p == 0.1
    image_bchw = torch.rand(2, 3, 64, 64)
    c3 = model.backbone(model.normalise(image_bchw)).c3
    model.aux.dropout.p = 0.0
    expected = resize(model.aux(c3), (64, 64))
    torch.testing.assert_close(model.train()(image_bchw).aux_bkhw, expected)
    model.aux.dropout.p = 1.0  # everything: what is left is the classifier's bias
    bias_k = model.aux.classify.bias
    assert bias_k is not None
    assert torch.equal(model.aux(c3), bias_k[None, :, None, None].expand(2, 3, 8, 8))


def test_resizing_keeps_pixel_centres_in_place() -> None:
    row = resize(torch.tensor([0.0, 1.0]).view(1, 1, 1, 2), (1, 4)).flatten()
    torch.testing.assert_close(row, torch.tensor([0.0, 0.25, 0.75, 1.0]))


def test_a_saved_export_gives_the_same_logits(tmp_path: Path) -> None:
    model = create_model("reconet", **SMALL).eval()
    image_bchw = torch.randint(0, 256, (1, 3, 64, 64), dtype=torch.uint8)
    torch.export.save(torch.export.export(model, (image_bchw,)), tmp_path / "model.pt2")
    again = torch.export.load(tmp_path / "model.pt2").module()(image_bchw)
    torch.testing.assert_close(again.main_bkhw, model(image_bchw).main_bkhw)


def test_a_network_built_on_meta_is_whole_after_loading_its_weights() -> None:
    source = create_model("reconet", **SMALL).eval()
    with torch.device("meta"):
        twin = create_model("reconet", **SMALL).eval()
    twin.to_empty(device="cpu").load_state_dict(source.state_dict())
    image_bchw = torch.rand(1, 3, 64, 64)
    assert torch.equal(twin(image_bchw).main_bkhw, source(image_bchw).main_bkhw)


@pytest.mark.parametrize("shape", [(3, 64, 64), (1, 1, 64, 64), (1, 64, 64, 3)])
def test_what_is_no_batch_of_rgb_images_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="takes RGB images"):
        create_model("plain", **SMALL)(torch.rand(shape))


def test_a_recipe_with_a_rank_takes_a_context_without_one() -> None:
    recipe = override(find_recipe("scenes/tiny"), "model.context", "fcn")
    assert not hasattr(build_model(recipe, 3).context.core, "rank_logits_r")
