"""`reconet cost`: counts of a recipe, of several contexts, and of the paper."""

import json

import pytest

from tests.cli.run import run


def test_cost_counts_a_recipe_at_any_size(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "cost", "scenes/tiny", "--size", "64x128", "--json")
    assert code == 0
    result = json.loads(out)
    assert result["input"] == [64, 128]
    assert result["models"]["reconet"]["total"]["macs"] > 0
    _, table, _ = run(capsys, "cost", "scenes/tiny")
    assert "of which core" in table


def test_cost_compares_contexts_on_one_backbone(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["--context", "reconet", "--context", "fcn", "--context", "plain"]
    _, out, _ = run(capsys, "cost", "scenes/tiny", *names, "--json")
    macs = {n: c["total"]["macs"] for n, c in json.loads(out)["models"].items()}
    assert macs["reconet"] > macs["fcn"] > macs["plain"]


def test_cost_paper_prints_both_countings_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "cost", "--paper")
    assert code == 0
    for digits in ("0.0173", "0.0215", "0.1515", "190.5779", "41.9061"):
        assert digits in out
    assert "assumes one BatchNorm2d(512)" in out
