"""`reconet bench`: what it measures, and what it draws."""

import json
from pathlib import Path

import pytest
from PIL import Image

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
    with Image.open(image) as drawn:
        assert drawn.size == (1200, 750)


@pytest.mark.parametrize(
    ("words", "now"),
    [
        ("bench evaluate --classes 21", "`python -m benchmarks.evaluate`"),
        ("bench all --runs 1", "`make bench`"),
        ("bench train --frozen", "`python -m benchmarks.frozen`"),
    ],
)
def test_a_benchmark_that_is_a_script_now_is_named(
    capsys: pytest.CaptureFixture[str], words: str, now: str
) -> None:
    code, _, err = run(capsys, *words.split())
    assert code == 2
    assert now in err
    assert err.count("\n") == 1


def test_bench_train_shows_the_losses_of_every_way(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", "train", "--backbone=resnet18", "--size=64", "--device=cpu"]
    code, out, err = run(capsys, *arguments, "--steps=1", "--json")
    assert code == 0, err
    fp32, *others = json.loads(out)["modes"]
    assert (fp32["name"], fp32["over_fp32"]) == ("fp32", 1.0)
    for other in others:
        for one, loss in zip(fp32["losses"], other["losses"], strict=True):
            assert abs(one - loss) < 0.1 * one
