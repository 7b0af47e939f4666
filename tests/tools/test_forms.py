"""Other forms of RecoNet+ compute what they say, and are in no table unless they are imported."""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from unittest.mock import patch

import pytest
import torch

from reconet import CONTEXTS
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
