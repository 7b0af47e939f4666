"""The cores of all contexts, side by side on one map."""

from pathlib import Path

import pytest
import torch

from reconet.bench.modules import (
    LOOP,
    LoopReconstruction,
    ModuleBench,
    bench_module,
    make_cores,
    smaller_than_reconet,
)
from reconet.cost import module_cost
from reconet.errors import RecipeError
from reconet.models.context import CONTEXTS
from reconet.models.context.reconet import TensorReconstruction
from reconet.models.features import FeatureSpec


def test_the_loop_form_computes_the_same() -> None:
    core = TensorReconstruction(FeatureSpec(channels=6, height=5, width=7), rank=3)
    torch.nn.init.normal_(core.rank_logits_r)
    x_bchw = torch.randn(2, 6, 5, 7)
    torch.testing.assert_close(LoopReconstruction(core)(x_bchw), core(x_bchw))


def test_bench_module_measures_both_forms_at_the_size_asked_for() -> None:
    fast, loop = bench_module(channels=8, size=(6, 5), rank=2, repeats=2, only=[])
    assert (fast.name, loop.name) == ("reconet", "reconet, loop")
    assert fast.params == loop.params == 2 * (64 + 36 + 25) + 2
    assert fast.macs == 2 * (64 + 36 + 25) + 2 * 8 * 30
    assert fast.forward_peak_maps >= 1
    assert loop.forward_backward_peak_maps > fast.forward_backward_peak_maps >= 1
    assert fast.forward_ms > 0
    assert fast.forward_backward_ms > 0


def test_every_context_with_a_core_is_measured() -> None:
    results = bench_module(channels=16, size=(6, 5), rank=2, repeats=1)
    names = [result.name for result in results]
    assert names[:2] == ["reconet", LOOP]
    assert set(names[2:]) == {
        *("a2net", "asymmetric", "cbam", "ccnet", "cfnet", "danet", "emanet", "encnet"),
        *("latentgnn", "nonlocal", "reconet_plus", "senet"),
    }
    for result in results:
        assert result.macs > 0, result.name
        assert result.forward_backward_peak_maps >= 1, result.name
    assert {r.name for r in results if not r.spatial} == {"encnet", "senet"}


def test_cores_are_those_of_the_published_heads_at_full_size() -> None:
    with torch.device("meta"):
        cores = make_cores(512, (64, 64), 64)
    params = {n: sum(p.numel() for p in core.parameters()) for n, core in cores.items()}
    assert params["reconet"] == params[LOOP] == 17_301_568
    assert params["nonlocal"] == 525_568
    assert params["latentgnn"] == 145_353
    x_bchw = torch.empty(1, 512, 64, 64, device="meta")
    assert module_cost(cores[LOOP], x_bchw).macs == 153_616_384
    assert module_cost(cores["reconet"], x_bchw).macs == 151_519_232


@pytest.mark.parametrize(
    "name", [name for name in CONTEXTS if CONTEXTS[name].info.reach == "channels only"]
)
def test_a_core_that_sees_channels_only_does_not_care_where_things_are(name: str) -> None:
    """Compare with RecoNet's core, which does depend on positions."""
    with torch.random.fork_rng():
        cores = make_cores(16, (4, 4), 2, [name])
    x_bcn = torch.randn(1, 16, 16)
    order = torch.randperm(16)
    for key, same in ((name, True), ("reconet", False)):
        core = cores[key].eval()
        plain = core(x_bcn.view(1, 16, 4, 4)).flatten(2)[:, :, order]
        moved = core(x_bcn[:, :, order].view(1, 16, 4, 4)).flatten(2)
        assert torch.allclose(plain, moved, atol=1e-5) == same, key


def test_a_context_without_a_core_is_refused_by_name() -> None:
    with pytest.raises(RecipeError, match="pspnet has no core"):
        make_cores(8, (4, 4), 2, ["pspnet"])
    with pytest.raises(RecipeError, match="Did you mean 'emanet'"):
        make_cores(8, (4, 4), 2, ["emanett"])


def measured(name: str, milliseconds: float, maps: float) -> ModuleBench:
    return ModuleBench(
        name=name,
        reach=CONTEXTS[name].info.reach,
        params=1,
        macs=1,
        forward_ms=milliseconds,
        forward_backward_ms=2 * milliseconds,
        forward_peak_maps=maps,
        forward_backward_peak_maps=2 * maps,
    )


def test_a_core_that_is_smaller_than_ours_is_named_unless_it_sees_channels_only() -> None:
    ours, senet = measured("reconet", 5, 2), measured("senet", 1, 1)
    assert smaller_than_reconet([ours, senet, measured("danet", 6, 3)]) == []
    (line,) = smaller_than_reconet([ours, senet, measured("cbam", 4, 3)])
    assert line.startswith("cbam (channels, 7 x 7;")
    assert line.endswith("less than RecoNet: forward, forward + backward.")


@pytest.mark.slow
def test_one_product_per_axis_beats_the_loop_by_far() -> None:
    """Check the promise of the README at the paper's size, as a ratio within one run."""
    torch.set_num_threads(2)
    fast, loop = bench_module(repeats=9, only=[])
    assert loop.forward_ms / fast.forward_ms >= 12
    assert loop.forward_backward_ms / fast.forward_backward_ms >= 8
    assert fast.forward_peak_maps < 6
    assert fast.forward_backward_peak_maps < 6


OWN = """
import torch
from torch import nn

class Twice(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.layer = nn.Conv2d(channels, channels, 1, bias=False)
    def forward(self, x):
        return torch.tensor(2.0) * self.layer(x), "more"

def bare(channels):
    return nn.Identity()

def wide(channels):
    return nn.Conv2d(2 * channels, channels, 1)

number = 3
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / f"own_{tmp_path.name}.py"
    path.write_text(OWN)
    return path


def test_a_module_of_the_user_is_measured_beside_ours(own: Path) -> None:
    results = bench_module(
        channels=8,
        size=(6, 5),
        rank=2,
        repeats=1,
        only=["danet"],
        against=[f"{own}:Twice", f"{own}:bare"],
    )
    assert [result.name for result in results[2:]] == ["danet", f"{own}:Twice", f"{own}:bare"]
    assert [(result.params, result.macs) for result in results[3:]] == [(64, 64 * 30), (0, 0)]
    assert results[3].forward_backward_peak_maps < 2.5  # the result is freed before the gradients


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Twise", "Did you mean 'Twice'"),
        ("wide", "called with the number of channels"),
        ("number", "class or function"),
        ("", "FILE.py:NAME"),
    ],
)
def test_a_module_that_cannot_be_measured_is_one_line(own: Path, name: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message) as caught:
        bench_module(channels=8, size=(6, 5), rank=2, repeats=1, only=[], against=[f"{own}:{name}"])
    assert "\n" not in str(caught.value)
