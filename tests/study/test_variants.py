"""Every variant of a study is a network that can be built, and all start from the same weights."""

import pytest
import torch

from reconet.errors import RecipeError
from reconet.models import build_model
from reconet.recipes import find_recipe
from reconet.study import STUDIES, choose_baseline, choose_variants
from tests.factories import tiny_recipe

TINY = tiny_recipe()


@pytest.mark.parametrize("name", STUDIES)
def test_every_variant_can_be_built_on_any_recipe(name: str) -> None:
    variants = STUDIES[name].variants()
    names = [variant.name for variant in variants]
    assert len(set(names)) == len(names)
    assert STUDIES[name].baseline in names
    for base, some in ((TINY, variants), (find_recipe("voc12/reconet_r50"), variants[::3])):
        for variant in some:
            with torch.device("meta"):
                build_model(variant.recipe(base, 3), 5, pretrained=False)
            assert variant.recipe(base, 3).train.seed == 3


@pytest.mark.parametrize("name", ["components", "attention", "rank"])
def test_variants_of_one_seed_start_from_the_same_backbone_and_reduction(name: str) -> None:
    weights: dict[str, torch.Tensor] = {}
    for variant in STUDIES[name].variants():
        torch.manual_seed(5)
        model = build_model(variant.recipe(TINY, 5), 4)
        for key, value in model.state_dict().items():
            if key.startswith(("backbone.", "context.reduce.")):
                assert torch.equal(weights.setdefault(key, value), value), (variant.name, key)
    assert "context.reduce.0.weight" in weights


def test_the_attention_study_changes_nothing_but_the_core() -> None:
    shapes = {}
    for variant in STUDIES["attention"].variants():
        model = build_model(variant.recipe(TINY, 0), 4)
        shapes[variant.name] = {
            key: value.shape
            for key, value in model.state_dict().items()
            if not key.startswith("context.core.")
        }
    without = shapes.pop("without")
    for name, others in shapes.items():
        assert others.keys() == without.keys(), name
        # The convolution that joins [X, A * X] is wider than that on X alone; nothing else differs.
        assert {k for k in others if others[k] != without[k]} == {"context.fuse.0.weight"}, name


def test_cached_features_leave_out_what_they_do_not_suit_unless_it_is_named() -> None:
    components = STUDIES["components"]
    names = [v.name for v in choose_variants(components, None, quick=False, on_features=True)]
    left_out = {"aux", "ms_flip"}
    assert names == [v.name for v in components.variants() if v.name not in left_out]
    [aux] = choose_variants(components, ["aux"], quick=False, on_features=True)
    assert aux.name == "aux"


def test_the_baseline_is_the_named_one_or_the_studys_or_the_first() -> None:
    study = STUDIES["components"]
    some = choose_variants(study, ["gpm", "both", "without"], quick=False)
    assert choose_baseline(study, some, "both") == "both"
    assert choose_baseline(study, some, None) == "without"
    assert choose_baseline(study, some[1:], None) == "gpm"
    with pytest.raises(RecipeError, match=r"unknown baseline, .*'fcn'"):
        choose_baseline(study, some, "fcn")


def test_an_unknown_variant_is_explained() -> None:
    with pytest.raises(RecipeError, match="unknown variant of the study rank: 'r65'"):
        choose_variants(STUDIES["rank"], ["r65"], quick=False)
    with pytest.raises(RecipeError, match="at least one name"):
        choose_variants(STUDIES["rank"], [], quick=False)


def test_dilations_follow_the_output_stride() -> None:
    variants = {variant.name: variant for variant in STUDIES["contexts"].variants()}
    for stride, rates in ((8, (12, 24, 36)), (16, (6, 12, 18))):
        base = tiny_recipe(f"model.output_stride={stride}")
        for name in ("deeplabv3", "deeplabv3plus"):
            context = build_model(variants[name].recipe(base, 0), 3).context
            pyramid = context.get_submodule("aspp.branches")
            dilated = [part.get_submodule("0").dilation for part in list(pyramid.children())[1:-1]]
            assert dilated == [(rate, rate) for rate in rates]
