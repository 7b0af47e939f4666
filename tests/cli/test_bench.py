"""`reconet bench`: what it measures, and what it draws."""

import json
from pathlib import Path

import pytest

from tests.cli.run import run


def test_bench_module_reports_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", "module", "--rank=2", "--channels=8", "--size=6x5", "--rounds=2"]
    code, out, _ = run(capsys, *arguments, "--json")
    assert code == 0
    result = json.loads(out)
    assert {"forward_speedup", "forward_backward_speedup"} <= result.keys()
    assert {"reconet", "reconet, loop", "emanet"} <= {core["name"] for core in result["cores"]}
    assert "reconet, loop" in run(capsys, *arguments)[1]


def test_bench_module_measures_what_is_chosen_and_draws_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["bench", "module", "--rank=2", "--channels=8", "--size=6x5", "--rounds=1"]
    image = tmp_path / "cores.png"
    more = ["--context=danet", "--context=senet", f"--plot={image}", "--json"]
    code, out, _ = run(capsys, *arguments, *more)
    assert code == 0
    names = [core["name"] for core in json.loads(out)["cores"]]
    assert names == ["reconet", "reconet, loop", "danet", "senet"]
    assert image.stat().st_size > 1000


def test_bench_train_compares_cached_features_with_the_whole_network(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["bench", "train", "--frozen", "--backbone=resnet18", "--size=64", "--batch=2"]
    code, out, err = run(capsys, *arguments, "--steps=1", "--device=cpu", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["over_full"] > 0
    assert result["cache_bytes_per_image"] == 512 * 4 * 4 * 2 + 64 * 64
    assert {"build_seconds_per_image", "break_even_epochs"} <= result.keys()
    code, out, _ = run(capsys, *arguments, "--steps=1", "--device=cpu")
    assert code == 0
    assert "head on cached features" in out
    assert "20.5 kB" in out
