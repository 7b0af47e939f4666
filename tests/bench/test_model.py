"""All ways to run one network give the same labels, or a reason why they cannot be run."""

import json
from pathlib import Path

import pytest

from reconet.bench.model import EAGER, WAYS, bench_model
from reconet.cli import main
from reconet.errors import MissingExtraError
from reconet.models.trained import load_trained
from tests.factories import tiny_network, write_run


def decided_run(directory: Path) -> Path:
    return write_run(directory, tiny_network(decided=True))


def test_all_ways_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--size=48x72", "--rounds=1", "--way=Predictor's default", "--context=fcn"]
    assert main(["bench", "model", str(decided_run(tmp_path)), *arguments, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["ways"]
    assert [(r["network"], r["way"]) for r in rows] == [
        ("reconet", EAGER),
        ("reconet", "Predictor's default"),
        ("fcn", EAGER),
        ("fcn", "Predictor's default"),
    ]
    for row in rows:
        assert row["images_per_second"] > 0
        assert row["agreement"] > 0.99
    assert rows[0]["over_eager"] == 1.0


def test_what_cannot_be_run_here_is_a_row_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(bench: object) -> None:
        raise MissingExtraError("export", "opening a.onnx")

    monkeypatch.setitem(WAYS, "ONNX Runtime", missing)
    results = bench_model(
        load_trained(decided_run(tmp_path)), size=(48, 48), rounds=1, ways=["ONNX Runtime"]
    )
    assert [r.way for r in results] == [EAGER, "ONNX Runtime"]
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
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["bench", "model", str(decided_run(tmp_path)), *arguments]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:.*script_method.*:DeprecationWarning"
)  # by torch.compile itself
def test_every_way_runs_or_says_why_not(tmp_path: Path) -> None:
    results = bench_model(load_trained(decided_run(tmp_path)), size=(64, 96), rounds=1)
    assert sorted(r.way for r in results) == sorted(WAYS)
    for result in results:
        assert result.reason or (result.agreement or 0) > 0.9
