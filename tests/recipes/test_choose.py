"""The rules that choose settings: facts in, a recipe and reasons out."""

from dataclasses import replace

import pytest

from reconet.cost import model_cost
from reconet.errors import DataError
from reconet.models.segmenter import build_model
from reconet.recipes.choose import FRESH, WHOLE, Facts, choose

LAPTOP = Facts(
    images=180,
    val_images=20,
    height=480,
    width=640,
    shares=(0.7, 0.2, 0.1),
    thin=50,
    device="cpu",
    memory=8 * 10**9,
    cores=4,
    bf16=False,
    pretrained=True,
)
GPU = replace(LAPTOP, device="cuda", memory=24 * 10**9, cores=16, bf16=True)


def chosen(facts: Facts) -> dict[str, str]:
    return {one.setting: one.value for one in choose(facts).settings}


@pytest.mark.parametrize(
    ("facts", "base", "some"),
    [
        (LAPTOP, "folder/frozen", {"data.base_size": "304", "data.crop": "240x304"}),
        (LAPTOP, "folder/frozen", {"train.batch": "16", "train.steps": "900", "data.views": "6"}),
        (replace(LAPTOP, shares=(0.995, 0.005)), "folder/frozen", {"data.base_size": "480"}),
        (replace(LAPTOP, height=100, width=90), "folder/frozen", {"data.crop": "96x96"}),
        (replace(LAPTOP, images=20), "folder/frozen", {"train.batch": "4", "optim.lr": "0.0025"}),
        (replace(LAPTOP, images=20), "folder/frozen", {"data.views": "16", "train.steps": "400"}),
        (replace(LAPTOP, images=2000), "folder/frozen", {"data.views": "1", "train.steps": "4000"}),
        (GPU, "folder/reconet", {"data.base_size": "640", "data.crop": "480x512"}),
        (GPU, "folder/reconet", {"train.batch": "8", "train.steps": "1800", "optim.lr": "0.005"}),
        (GPU, "folder/reconet", {"train.precision": "bf16", "data.workers": "8"}),
        (replace(GPU, images=49), "folder/frozen", {"train.batch": "8"}),
        (replace(GPU, memory=8 * 10**9), "folder/reconet", {"train.micro_batch": "4"}),
        (replace(GPU, memory=3 * 10**9), "folder/reconet", {"train.micro_batch": "2"}),
        (replace(GPU, height=4000, width=6000), "folder/reconet", {"data.base_size": "1040"}),
        (replace(LAPTOP, pretrained=False), "folder/reconet", {"model.backbone": "resnet18"}),
        (replace(LAPTOP, pretrained=False), "folder/reconet", {"data.crop": "192x256"}),
        (replace(LAPTOP, cores=1), "folder/frozen", {"data.workers": "0"}),
    ],
)
def test_facts_give_settings(facts: Facts, base: str, some: dict[str, str]) -> None:
    choice = choose(facts)
    assert choice.base == base
    assert chosen(facts).items() >= some.items()
    assert all(one.reason for one in choice.settings)


@pytest.mark.parametrize("images", [2, 3, 5, 17, 100, 10**6])
@pytest.mark.parametrize("facts", [LAPTOP, GPU, replace(LAPTOP, pretrained=False)])
@pytest.mark.parametrize("size", [(1, 1), (40, 4000), (3000, 2000)])
def test_any_number_and_size_of_images_gives_a_recipe_that_can_run(
    facts: Facts, images: int, size: tuple[int, int]
) -> None:
    recipe = choose(replace(facts, images=images, height=size[0], width=size[1])).recipe
    assert 2 <= recipe.train.batch <= max(2, images)
    assert min(recipe.data.crop) >= 64
    assert (recipe.data.views is None) == (not recipe.model.frozen)


def test_too_few_images_are_refused() -> None:
    with pytest.raises(DataError, match="too few: label some more"):
        choose(replace(LAPTOP, images=1))
    with pytest.raises(DataError, match="0 to validate are too few"):
        choose(replace(LAPTOP, val_images=0))


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (GPU, WHOLE.bytes_per_pixel),
        (replace(LAPTOP, pretrained=False), FRESH.bytes_per_pixel),
    ],
)
def test_the_rules_know_what_a_pixel_costs(facts: Facts, told: int) -> None:
    model = build_model(choose(facts).recipe, 3, pretrained=False)
    counted = model_cost(model, (128, 128)).training_bytes / 128**2
    assert counted == pytest.approx(told, rel=0.1)


def test_a_class_thinner_than_the_features_is_seen_larger_and_told() -> None:
    wires = replace(LAPTOP, thin=3)
    chosen = {one.setting: one for one in choose(wires).settings}
    usual = {one.setting: one for one in choose(LAPTOP).settings}
    assert int(chosen["data.base_size"].value) > int(usual["data.base_size"].value)
    assert "3 pixels wide" in chosen["data.base_size"].reason
    assert "model.decoder=light" in chosen["data.base_size"].reason
