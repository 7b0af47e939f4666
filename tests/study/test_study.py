"""A whole study on tiny networks: kills, failures, and what the command prints."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from reconet.cli import main
from reconet.engine import read_log, run_weights
from reconet.study import STUDIES, StudyResult, open_study, write_results
from tests.study.tiny_study import command


def start(out: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "reconet", *command(out, *more)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_study_that_was_killed_resumes_to_the_same_table(
    tmp_path: Path, finished: StudyResult, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kill a study that has one finished trial and one in the middle of its training."""
    out = tmp_path / "killed"
    first, second = out / "fcn" / "seed0", out / "tgm_trm" / "seed0"
    shutil.copytree(finished.out / "fcn" / "seed0", first)
    shutil.copy(finished.out / "study.json", out)
    made = (first / "result.json").stat().st_mtime_ns

    process = start(out)
    while process.poll() is None and not (second / "last.pt").exists():
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (second / "result.json").exists()

    assert main(command(out, "--json")) == 0
    rows = {row["variant"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert (first / "result.json").stat().st_mtime_ns == made, "a finished trial was run again"
    for name in ("fcn", "tgm_trm"):
        [undisturbed] = [row.trials[0].figures for row in finished.rows if row.variant == name]
        [again] = rows[name]["cells"]
        assert again["figures"] == undisturbed
    assert len(open_study(out).rows) == 2
    assert (out / "report.html").is_file()


@pytest.mark.slow
def test_a_stop_saves_what_was_done_and_says_how_to_resume(tmp_path: Path) -> None:
    out = tmp_path / "stopped"
    process = start(out, "--set=train.steps=4000", "--set=train.save_every=4000")
    run = out / "fcn" / "seed0"
    while process.poll() is None and not any(line["step"] > 1 for line in read_log(run)):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGTERM)
    _, printed = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "run the same command again to resume" in printed
    assert (run / "last.pt").is_file()  # nothing else would have saved so early
    assert not (run / "failure.json").exists()


def test_a_failing_trial_is_reported_and_the_others_are_there(
    tmp_path: Path, finished: StudyResult, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    os.makedirs(out)
    shutil.copy(finished.out / "study.json", out)
    os.symlink(finished.out / "fcn", out / "fcn")
    (out / "tgm_trm").mkdir()
    (out / "tgm_trm" / "seed1").mkdir()
    (out / "tgm_trm" / "seed1" / "strange.txt").touch()  # not empty, and no run
    os.symlink(finished.out / "tgm_trm" / "seed0", out / "tgm_trm" / "seed0")
    assert main(command(out, seeds=2)) == 1
    printed = capsys.readouterr()
    assert "tgm_trm seed 1: " in printed.err
    assert "holds no run" in printed.err
    assert "tgm_trm" in printed.out  # the table has its other seed
    assert "Some trials are missing" in (out / "report.html").read_text()


def test_trainings_of_another_machine_are_not_run_again(
    tmp_path: Path, finished: StudyResult, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "results.json", tmp_path / "out"
    write_results(finished.out, file)
    assert main(command(out, f"--add={file}", "--json", seeds=2)) == 0
    rows = {row["variant"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    for row in finished.rows[:2]:
        figures = [cell["figures"] for cell in rows[row.variant]["cells"]]
        assert figures == [trial.figures for trial in row.trials]
    assert not list(out.rglob("last.pt"))
    assert (out / "results.json").read_text() == file.read_text()
    assert main(command(tmp_path / "other", f"--add={tmp_path / 'none.json'}")) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "cannot read" in line


def test_a_list_without_a_name_is_that_of_the_studies(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "--list"]) == 0
    printed = capsys.readouterr().out
    for name, study in STUDIES.items():
        assert name in printed
        assert study.question in printed
    assert main(["study", "--list", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)["studies"]
    assert [study["name"] for study in values] == list(STUDIES)
    assert values[1]["variants"] == [v.name for v in STUDIES["rank"].variants()]
    assert main(["study"]) == 2
    assert "name a study: components, rank, contexts, attention" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("3", "0, 1, 2"),
        ("3-7", "3, 4, 5, 6, 7"),
        ("4-4", "4"),
        ("0,2,5", "0, 2, 5"),
        ("1, 4-6,5", "1, 4, 5, 6"),
    ],
)
def test_seeds_are_a_number_a_list_or_a_range(
    text: str, seeds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", "attention", "--list", f"--seeds={text}", "--baseline=paper"]) == 0
    assert f"seeds {seeds}; baseline paper" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "0", "-1", "7-3", "1,,2", "a", "1-2-3", "0-1000000000", "²"])
def test_other_seeds_are_explained(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "attention", "--list", f"--seeds={text}"]) == 2
    assert "a list (0,1,2) or a range (3-7)" in capsys.readouterr().err


def test_listed_settings_can_be_pasted_into_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["study", "components", "--list", "--variants=ms_flip", "--recipe=scenes/tiny"]
    assert main([*words, "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)["variants"][-1]["set"]
    assert any("[" in setting for setting in settings)  # a shell would expand brackets
    assert main(words) == 0
    shown = capsys.readouterr().out.split("ms_flip")[1].split("seeds ")[0]
    cell = " ".join(shown.split())  # the table breaks long lines
    pasted = shlex.split(cell[cell.index("--set") :])
    assert [x for s in settings for x in ("--set", s)] == pasted


STILL = ["--set=optim.lr=1e-12", "--set=optim.weight_decay=0", "--set=train.eval_every=4"]


def test_a_training_that_hardly_moves_ends_with_the_weights_of_the_other_study(
    finished: StudyResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "again"
    assert main([*command(out, *STILL), f"--set=train.init_from={finished.out}"]) == 0
    assert f"weights from {finished.out.name}" in capsys.readouterr().out
    for name in ("fcn", "tgm_trm"):
        before = run_weights(finished.out / name / "seed0" / "best.safetensors")
        after = run_weights(out / name / "seed0" / "best.safetensors")
        weight = "classify.weight"
        assert torch.equal(after[weight], before[weight])


def test_a_study_without_networks_is_one_line(
    finished: StudyResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start, out = tmp_path / "start", tmp_path / "out"
    start.mkdir()
    shutil.copy(finished.out / "study.json", start)
    assert main([*command(out), f"--set=train.init_from={start}"]) == 2
    printed = capsys.readouterr().err
    assert "has no network for fcn seed 0 to start from" in printed
    assert "--keep-networks" in printed
    assert not out.exists()
