"""The benchmarks measure what they say. How fast this machine is does not matter here."""

import json
from pathlib import Path

import pytest
import torch

from reconet.bench import data, model, modules, train
from reconet.cli import main
from reconet.cost import module_cost
from reconet.errors import MissingExtraError, RecipeError
from reconet.models import CONTEXTS, load_trained
from reconet.models.context.reconet import TensorReconstruction
from reconet.models.features import FeatureSpec
from tests.factories import tiny_network, write_run


def test_the_loop_form_computes_the_same() -> None:
    core = TensorReconstruction(FeatureSpec(channels=6, height=5, width=7), rank=3)
    torch.nn.init.normal_(core.rank_logits_r)
    x_bchw = torch.randn(2, 6, 5, 7)
    torch.testing.assert_close(modules.LoopReconstruction(core)(x_bchw), core(x_bchw))


def test_every_context_with_a_core_is_measured_at_the_size_asked_for() -> None:
    fast, loop, *others = modules.bench_module(channels=16, size=(6, 5), rank=2, repeats=1)
    assert (fast.name, loop.name) == ("reconet", "reconet, loop")
    assert fast.params == loop.params == 2 * (256 + 36 + 25) + 2
    assert fast.macs == 2 * (256 + 36 + 25) + 2 * 16 * 30
    assert loop.forward_backward_peak_maps > fast.forward_backward_peak_maps >= 1
    assert min(fast.forward_ms, fast.forward_backward_ms, fast.forward_peak_maps) > 0
    assert {one.name for one in others} == {
        *("a2net", "asymmetric", "cbam", "ccnet", "cfnet", "danet", "emanet", "encnet"),
        *("latentgnn", "nonlocal", "reconet_plus", "senet"),
    }
    for result in others:
        assert result.macs > 0, result.name
        assert result.forward_backward_peak_maps >= 1, result.name
    assert {one.name for one in others if not one.spatial} == {"encnet", "senet"}


def test_cores_are_those_of_the_published_heads_at_full_size() -> None:
    with torch.device("meta"):
        cores = modules.make_cores(512, (64, 64), 64)
    params = {n: sum(p.numel() for p in core.parameters()) for n, core in cores.items()}
    assert params["reconet"] == params[modules.LOOP] == 17_301_568
    assert (params["nonlocal"], params["latentgnn"]) == (525_568, 145_353)
    x_bchw = torch.empty(1, 512, 64, 64, device="meta")
    assert module_cost(cores[modules.LOOP], x_bchw).macs == 153_616_384
    assert module_cost(cores["reconet"], x_bchw).macs == 151_519_232
    with pytest.raises(RecipeError, match="pspnet has no core"):
        modules.make_cores(8, (4, 4), 2, ["pspnet"])


@pytest.mark.parametrize(
    "name", [name for name in CONTEXTS if CONTEXTS[name].info.reach == "channels only"]
)
def test_a_core_that_sees_channels_only_does_not_care_where_things_are(name: str) -> None:
    """Compare with RecoNet's core, which does depend on positions."""
    with torch.random.fork_rng():
        cores = modules.make_cores(16, (4, 4), 2, [name])
    x_bcn = torch.randn(1, 16, 16)
    order = torch.randperm(16)
    for key, same in ((name, True), ("reconet", False)):
        core = cores[key].eval()
        plain = core(x_bcn.view(1, 16, 4, 4)).flatten(2)[:, :, order]
        moved = core(x_bcn[:, :, order].view(1, 16, 4, 4)).flatten(2)
        assert torch.allclose(plain, moved, atol=1e-5) == same, key


@pytest.mark.slow
def test_one_product_per_axis_beats_the_loop_by_far() -> None:
    """Check the promise of the README at the paper's size, as a ratio within one run."""
    torch.set_num_threads(2)
    fast, loop = modules.bench_module(repeats=9, only=[])
    assert loop.forward_ms / fast.forward_ms >= 12
    assert loop.forward_backward_ms / fast.forward_backward_ms >= 8
    assert max(fast.forward_peak_maps, fast.forward_backward_peak_maps) < 6


OWN = """
import torch
from torch import nn

class Twice(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.layer = nn.Conv2d(channels, channels, 1, bias=False)
    def forward(self, x):
        return torch.tensor(2.0) * self.layer(x), "more"

def wide(channels):
    return nn.Conv2d(2 * channels, channels, 1)

number = 3
"""


def test_a_module_of_the_user_is_measured_beside_ours(tmp_path: Path) -> None:
    own = tmp_path / "own_modules.py"
    own.write_text(OWN)
    map_ = {"channels": 8, "size": (6, 5), "rank": 2, "repeats": 1}
    results = modules.bench_module(**map_, only=["danet"], against=[f"{own}:Twice"])  # type: ignore[arg-type]
    assert [result.name for result in results[2:]] == ["danet", f"{own}:Twice"]
    assert (results[3].params, results[3].macs) == (64, 64 * 30)
    assert results[3].forward_backward_peak_maps < 2.5  # the result is freed before the gradients
    for name, message in (
        ("Twise", "Did you mean 'Twice'"),
        ("wide", "called with the number of channels"),
        ("number", "class or function"),
        ("", "FILE.py:NAME"),
    ):
        with pytest.raises(RecipeError, match=message) as caught:
            modules.bench_module(**map_, only=[], against=[f"{own}:{name}"])  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)


def test_the_gain_of_a_training_is_the_median_over_the_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Take ratios within a step. Two medians may come from different moments of a busy machine."""
    times = {name: [2.0, 1.0, 3.0] for name in train.MODES} | {"fp32": [1.0, 10.0, 3.0]}
    monkeypatch.setattr(train, "time_in_turns", lambda calls, rounds: times)
    results = train.bench_train(backbone="resnet18", size=64, batch=2, steps=3, device="cpu")
    assert [result.over_fp32 for result in results] == [1.0] * len(train.MODES)


def test_rates_of_loading_are_relative_to_decoding_alone() -> None:
    ours, decode = data.bench_data(images=4, batch=2, steps=2, rounds=1, workers=(1,))
    assert [(r.name, r.workers) for r in (ours, decode)] == [("reconet", 1), ("decode", 1)]
    assert decode.of_decode == 1
    rate = pytest.approx(ours.samples_per_second)
    assert ours.of_decode * decode.samples_per_second == rate


@pytest.fixture
def decided(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", tiny_network(decided=True))


def test_all_ways_agree(decided: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--size=48x72", "--rounds=1", "--way=Predictor's default", "--context=fcn"]
    assert main(["bench", "model", str(decided), *arguments, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["ways"]
    assert [(r["network"], r["way"]) for r in rows] == [
        (network, way)
        for network in ("reconet", "fcn")
        for way in (model.EAGER, "Predictor's default")
    ]
    for row in rows:
        assert row["images_per_second"] > 0
        assert row["agreement"] > 0.99
    assert rows[0]["over_eager"] == 1.0


def test_what_cannot_be_run_here_is_a_row_with_its_reason(
    decided: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(bench: object) -> None:
        raise MissingExtraError("export", "opening a.onnx")

    monkeypatch.setitem(model.WAYS, "ONNX Runtime", missing)
    trained = load_trained(decided)
    results = model.bench_model(trained, size=(48, 48), rounds=1, ways=["ONNX Runtime"])
    assert [r.way for r in results] == [model.EAGER, "ONNX Runtime"]
    assert results[1].images_per_second is None
    assert "'.[export]'" in results[1].reason


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--way", "onnx"], "unknown way 'onnx'"),
        (["--context", "danett"], "Did you mean 'danet'?"),
        (["--size", "big"], "--size takes a number or HEIGHTxWIDTH"),
    ],
)
def test_a_wrong_option_is_one_line(
    decided: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["bench", "model", str(decided), *arguments]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:.*script_method.*:DeprecationWarning"
)  # by torch.compile itself
def test_every_way_runs_or_says_why_not(decided: Path) -> None:
    results = model.bench_model(load_trained(decided), size=(64, 96), rounds=1)
    assert sorted(r.way for r in results) == sorted(model.WAYS)
    for result in results:
        assert result.reason or (result.agreement or 0) > 0.9
