"""Other forms of RecoNet+ compute what they say, and are in no table unless they are imported."""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from reconet.models.context import CONTEXTS
from reconet.models.context.reconet_plus import FragmentReconstruction
from reconet.models.features import Features, FeatureSpec, Stages

CHANNELS, SIZE = 32, (5, 7)


@pytest.fixture
def forms() -> Iterator[ModuleType]:
    with patch.dict(CONTEXTS):
        sys.modules.pop("tools.forms", None)
        yield importlib.import_module("tools.forms")


def test_every_form_keeps_the_size_and_learns_all_of_itself(forms: ModuleType) -> None:
    spec = FeatureSpec(channels=CHANNELS, height=SIZE[0], width=SIZE[1])
    map_bchw = torch.rand(2, CHANNELS, *SIZE)
    for name in forms.FORMS:
        torch.manual_seed(0)
        context = CONTEXTS[name](Stages(spec, spec, spec, spec), num_classes=3)
        result = context(Features(map_bchw, map_bchw, map_bchw, map_bchw))
        assert result.map_bdhw.shape == (2, context.out_channels, *SIZE)
        result.map_bdhw.square().sum().backward()
        idle = [key for key, value in context.named_parameters() if value.grad is None]
        assert not idle, name


def test_forms_without_their_change_are_reconet_plus(forms: ModuleType) -> None:
    x_bchw = torch.rand(2, 8, *SIZE)
    plain = FragmentReconstruction(8, rank=3)
    same = {
        "start": forms.StartWeight(8, rank=3, times=1.0),
        "matrix": forms.MatrixPerRank(8, rank=3),  # its own matrices start at zero
    }
    for name, form in same.items():
        form.load_state_dict(plain.state_dict(), strict=False)
        torch.testing.assert_close(form(x_bchw), plain(x_bchw), msg=name)


@pytest.mark.parametrize("gather_from_map", [False, True])
def test_mixed_masks_gather_by_one_kind_and_place_by_the_other(
    forms: ModuleType, gather_from_map: bool
) -> None:
    core, x_bchw = forms.Mixed(8, rank=3, gather_from_map=gather_from_map), torch.rand(2, 8, *SIZE)
    gather_brhw, place_brhw = core.masks(x_bchw)
    assert is_separable(place_brhw) == gather_from_map
    assert is_separable(gather_brhw) == (not gather_from_map)
    # Flat masks and all weights together are global pooling.
    flat = 0.25 if gather_from_map else 0.5
    assert (core.weight_r * flat).sum().item() == pytest.approx(1)


def is_separable(plane_brhw: Tensor) -> bool:
    rank_br = torch.linalg.matrix_rank(plane_brhw.detach().double(), rtol=1e-6)
    return bool((rank_br == 1).all())


def test_signed_fragments_are_the_others_before_their_relu(forms: ModuleType) -> None:
    x_bchw = torch.randn(2, 8, *SIZE)
    plain, signed = FragmentReconstruction(8, rank=3), forms.Signed(8, rank=3)
    signed.load_state_dict(plain.state_dict())
    fragment_brc = signed.factors(x_bchw).channel_brc
    assert (fragment_brc < 0).any()
    torch.testing.assert_close(fragment_brc.relu(), plain.factors(x_bchw).channel_brc)
