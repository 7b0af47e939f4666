"""Every figure that the docs quote is read from what its command prints."""

import json
from typing import Any

import pytest

from reconet.bench import Measured, bench_all
from reconet.bench.summary import (
    DATA,
    EVALUATE,
    FIGURES,
    FROZEN,
    MODEL,
    MODULE,
    PRETRAINED,
    BenchError,
    run_command,
)
from reconet.cli import main
from tests.factories import ProgressRecorder

PRINTED: dict[str, Any] = {
    MODULE: {"forward_speedup": 15.0, "forward_backward_speedup": 13.0},
    DATA: {
        "pipelines": [
            {"name": name, "workers": workers, "over_pillow": 3.0 + workers}
            for name in ("pillow", "reconet")
            for workers in (1, 2)
        ]
    },
    MODEL: {
        "ways": [
            {"way": "eager fp32", "over_eager": 1.0},
            {"way": "OpenVINO int8", "over_eager": 5.0},
            {"way": "bf16", "over_eager": None},
        ]
    },
    PRETRAINED: {"ways": [{"way": "OpenVINO int8", "over_eager": 4.0}]},
    EVALUATE: {"networks": [{"speedup": 1.5}]},
    FROZEN: {"over_full": 70.0},
}


def test_the_smallest_run_is_quoted_and_commands_take_turns() -> None:
    asked: list[str] = []

    def run(command: str) -> dict[str, Any]:
        asked.append(command)
        slower = 0.5 if asked.count(command) == 2 else 1.0
        return {"forward_speedup": 15.0 * slower, "forward_backward_speedup": 13.0 * slower}

    core = [figure for figure in FIGURES if figure.command == MODULE]
    forward, both = bench_all(runs=3, figures=core, run=run)
    assert asked == [MODULE] * 3  # once for both figures
    assert forward.ratios == (15.0, 7.5, 15.0)
    assert (forward.smallest, both.smallest) == (7.5, 6.5)


def test_every_figure_is_found_in_what_its_command_prints() -> None:
    results = {r.what: r.smallest for r in bench_all(runs=1, run=PRINTED.__getitem__)}
    assert results["data pipeline against Pillow, 2 workers"] == 5.0
    assert results["OpenVINO int8 against eager fp32, ResNet-50, 512 x 512"] == 5.0
    assert results["bf16 against eager fp32, ResNet-50, 512 x 512"] is None  # cannot run here
    assert sum(value is None for value in results.values()) == 5  # ways that were not printed


def test_progress_counts_runs_of_commands() -> None:
    recorder = ProgressRecorder()
    bench_all(runs=2, run=PRINTED.__getitem__, progress=recorder)
    assert recorder.lines[0] == f"start {2 * len(PRINTED)}"
    assert recorder.lines.count("advance 1") == 2 * len(PRINTED)


def test_the_error_of_a_command_is_one_line() -> None:
    with pytest.raises(BenchError, match=r"`reconet bench modul` failed: .*modul"):
        run_command("reconet bench modul")


def test_the_verb_prints_machine_and_figures(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = Measured(what="core", command=MODULE, ratios=(2.0, 3.0))
    monkeypatch.setattr("reconet.bench.summary.bench_all", lambda **_: [result])
    assert main(["bench", "all", "--runs", "2", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["figures"][0]["smallest"] == 2.0
    assert values["machine"]["torch"]
    assert main(["bench", "all"]) == 0
    assert "2.00x" in capsys.readouterr().out
