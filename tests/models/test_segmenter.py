from typing import Any

import pytest
import torch

import reconet
from reconet.errors import RecipeError
from reconet.models.context.reconet import RecoNet
from reconet.models.segmenter import build_model, create_model
from reconet.recipe import override
from reconet.recipes import find

SMALL: dict[str, Any] = {"backbone": "resnet18", "width": 0.125, "num_classes": 3, "crop": 64}


def test_uint8_and_float_pictures_give_the_same_logits() -> None:
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
        ({"rank": 0}, r"option reconet\.rank: Input should be greater than 0, got 0"),
        ({"rank": "many"}, r"option reconet\.rank: .*got 'many'"),
        ({"dropout": 2.0}, r"option reconet\.dropout: .*less than or equal to 1"),
        ({"num_classes": 0}, "num_classes must be at least 1"),
    ],
)
def test_what_cannot_be_built_says_why(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        create_model(**{"name": "reconet", **SMALL, **arguments})


def test_a_recipe_builds_its_network_with_rank_and_options() -> None:
    recipe = override(find("scenes/tiny"), "model.rank", "5")
    recipe = override(recipe, "model.options.gpm", "false")
    context = build_model(recipe, 3).context
    assert isinstance(context, RecoNet)
    assert context.core is not None
    assert context.core.rank_logits_r.numel() == 5
    assert context.pool is None
