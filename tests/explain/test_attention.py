"""The attention that contexts show: true to their description and to their forward pass."""

from typing import Any

import pytest
import torch
from torch import Tensor

from reconet.errors import RecipeError
from reconet.explain.compute import attention_maps, shows_maps
from reconet.models.context import CONTEXTS
from tests.explain.networks import attentive_model

CLASSES = ("a", "b", "c")
SHOWN = sorted(name for name, kind in CONTEXTS.items() if shows_maps(kind))


def test_these_contexts_show_their_attention() -> None:
    expected = {
        *("a2net", "acfnet", "apcnet", "asymmetric", "cbam", "ccnet", "cfnet", "danet", "emanet"),
        *("encnet", "latentgnn", "nonlocal", "psanet", "senet"),
    }
    assert expected <= set(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_every_map_is_finite_and_what_is_said_of_its_sums_is_true(name: str) -> None:
    model = attentive_model(name)
    image = torch.randint(0, 256, (1, 3, 80, 64), dtype=torch.uint8)
    before = model.coarse(image)
    found = attention_maps(model, name, image, (0.9, 0.2), CLASSES)
    assert torch.equal(model.coarse(image), before)  # hooks are gone, nothing was changed
    values = [value for _, value in (*found.maps, *found.gates)]
    assert values
    assert all(v.isfinite().all() and v.min() >= 0 for v in values)
    if found.from_point and name != "apcnet":
        together = name in {"asymmetric"}
        sums = (
            [sum(v.sum().item() for v in values)] if together else [v.sum().item() for v in values]
        )
        assert sums == pytest.approx([1.0] * len(sums), rel=1e-4)
    assert all(v.max() <= 1 for v in values) or name == "latentgnn"


@pytest.mark.parametrize("name", ["nonlocal", "danet", "ccnet"])
def test_what_a_point_sees_is_the_mean_of_values_by_its_weights(name: str) -> None:
    model = attentive_model(name, **({"recurrence": 1} if name == "ccnet" else {}))
    core: Any = model.context.core
    caught: list[tuple[Tensor, Tensor]] = []
    hook = core.register_forward_hook(lambda part, given, result: caught.append((given[0], result)))
    image = torch.randint(0, 256, (1, 3, 80, 64), dtype=torch.uint8)
    map_hw = attention_maps(model, name, image, (0.9, 0.2), CLASSES).maps[0][1]
    hook.remove()
    x_bchw, y_bchw = caught[0]
    row, column = int(0.2 * y_bchw.shape[2]), int(0.9 * y_bchw.shape[3])
    mean_c = (core.value(x_bchw) * map_hw).sum((2, 3))[:, :, None, None]
    added = core.out(mean_c) if name == "nonlocal" else core.gamma * mean_c
    expected_c = x_bchw[0, :, row, column] + added[0, :, 0, 0]
    torch.testing.assert_close(y_bchw[0, :, row, column], expected_c, rtol=1e-4, atol=1e-5)
    assert added.abs().max() > 1e-3


def test_a_context_without_attention_is_refused_with_a_list_of_those_that_have_one() -> None:
    image = torch.zeros(1, 3, 64, 64, dtype=torch.uint8)
    with pytest.raises(RecipeError, match="'fcn' has no attention to explain; these have: reconet"):
        attention_maps(attentive_model("fcn"), "fcn", image, (0.5, 0.5), CLASSES)
