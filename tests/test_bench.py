import pytest
import torch

from reconet.bench import LoopReconstruction, bench_module
from reconet.models.context.reconet import TensorReconstruction
from reconet.models.features import FeatureSpec


def test_the_loop_form_computes_the_same() -> None:
    core = TensorReconstruction(FeatureSpec(channels=6, height=5, width=7), rank=3)
    torch.nn.init.normal_(core.rank_logits_r)
    x_bchw = torch.randn(2, 6, 5, 7)
    torch.testing.assert_close(LoopReconstruction(core)(x_bchw), core(x_bchw))


def test_bench_module_measures_both_forms_at_the_size_asked_for() -> None:
    fast, loop = bench_module(channels=8, size=(6, 5), rank=2, repeats=2)
    assert (fast.name, loop.name) == ("reconet", "reconet, loop")
    assert fast.params == loop.params == 2 * (64 + 36 + 25) + 2
    assert fast.macs == 2 * (64 + 36 + 25) + 2 * 8 * 30
    assert fast.forward_peak_maps >= 1
    assert loop.forward_backward_peak_maps > fast.forward_backward_peak_maps >= 1
    assert fast.forward_ms > 0
    assert fast.forward_backward_ms > 0


@pytest.mark.slow
def test_one_product_per_axis_beats_the_loop_by_far() -> None:
    """The promise of the README at the paper's size, as a ratio within one run."""
    torch.set_num_threads(2)
    fast, loop = bench_module(repeats=9)
    assert loop.forward_ms / fast.forward_ms >= 12
    assert loop.forward_backward_ms / fast.forward_backward_ms >= 8
    assert fast.forward_peak_maps < 6
    assert fast.forward_backward_peak_maps < 6
