"""Two trainings never write to one run directory, and nothing in it is lost."""

import errno
import fcntl
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reconet.engine import Log, Step, lock_directory, read_log
from reconet.errors import OutputError, TrainingError
from reconet.models import load_trained, save_trained
from reconet.recipes import read_recipe
from tests.factories import tiny_network, write_run
from tests.launch import TINY_NETWORK, last, run_main

RECIPE, BEST, SHEET = "recipe.json", "best.safetensors", "predictions.png"


def test_a_run_is_not_overwritten_and_another_recipe_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "scenes/tiny", f"--out={tmp_path / 'run'}", *TINY_NETWORK]
    assert run_main(capsys, *arguments)[0] == 0
    before = (tmp_path / "run" / "last.pt").read_bytes()
    code, _, err = run_main(capsys, *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert "already holds a run; resume it (--resume" in err
    code, _, err = run_main(capsys, *arguments, "--resume", "--set=optim.lr=0.5")
    assert (code, err.count("\n")) == (2, 1)
    assert "optim.lr is 0.02 there and 0.5 here" in err
    assert (tmp_path / "run" / "last.pt").read_bytes() == before


def test_a_start_that_failed_does_not_stand_in_the_way_of_the_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "scenes/tiny", f"--out={tmp_path / 'run'}", *TINY_NETWORK]
    assert run_main(capsys, *arguments, "--set=model.context=danett")[0] == 2
    assert run_main(capsys, *arguments)[0] == 0


def test_a_folder_with_other_things_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    code, _, err = run_main(capsys, "train", "scenes/tiny", f"--out={tmp_path}", *TINY_NETWORK)
    assert code == 2
    assert "is not empty" in err


def test_a_second_process_in_a_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from reconet.engine import lock_directory\n"
        "with lock_directory(Path(sys.argv[1])): print('in', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "in\n"
    result, _, err = run_main(
        capsys, "train", "scenes/tiny", f"--out={tmp_path / 'run'}", *TINY_NETWORK
    )
    assert result == 2
    assert "another process is training in" in err
    holder.kill()  # the lock goes with its process, however it ends
    holder.communicate()
    with lock_directory(tmp_path / "run"):
        pass


def test_a_log_with_nan_of_an_earlier_version_is_continued_without(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"kind": "val", "step": 2, "iou": [0.5, NaN]}\n')
    assert read_log(tmp_path)[0]["step"] == 2
    Log(tmp_path, 2)
    assert "NaN" not in (tmp_path / "log.jsonl").read_text()
    assert read_log(tmp_path)[0]["iou"] == [0.5, None]


def test_the_log_forgets_what_the_checkpoint_does_not_know(tmp_path: Path) -> None:
    lines = [{"kind": "train", "step": step} for step in (2, 4, 6)]
    text = "".join(json.dumps(line) + "\n" for line in lines) + '{"kind": "tr'
    (tmp_path / "log.jsonl").write_text(text)
    log = Log(tmp_path, 4)
    log.write(kind="train", step=6, loss=1.0)
    assert [line["step"] for line in read_log(tmp_path)] == [2, 4, 6]
    assert read_log(tmp_path)[-1]["loss"] == 1.0


def test_deleting_the_lock_file_lets_nobody_in(tmp_path: Path) -> None:
    with lock_directory(tmp_path):
        (tmp_path / ".lock").unlink()
        with pytest.raises(TrainingError, match="another process"), lock_directory(tmp_path):
            pass
    with lock_directory(tmp_path):
        pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_called_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(handle: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(TrainingError, match="cannot lock files") as raised,
        lock_directory(tmp_path),
    ):
        pass
    assert "RECONET_WITHOUT_LOCKS=1" in str(raised.value)
    monkeypatch.setenv("RECONET_WITHOUT_LOCKS", "1")
    with lock_directory(tmp_path):
        pass


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_lock_that_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(tmp_path / ".lock")
    else:
        (tmp_path / ".lock").symlink_to("/dev/zero")
    with pytest.raises(OutputError, match="cannot use"), lock_directory(tmp_path):
        pass


def make_better(run: Path) -> bytes:
    """Let the best network of a run say that it is better than any that training will find."""
    trained = load_trained(run)
    save_trained(
        run / BEST, replace(trained, info=replace(trained.info, step=9, score={"miou": 0.9}))
    )
    return (run / BEST).read_bytes()


@pytest.mark.parametrize(
    "files", [[RECIPE, BEST], [RECIPE, BEST, ".lock", SHEET], [BEST], [RECIPE]]
)
def test_a_network_that_was_shared_or_a_run_that_was_cleaned_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    run = write_run(tmp_path / "run", tiny_network())
    for path in run.iterdir():
        if path.name not in files:
            path.unlink()
    for name in set(files) - {RECIPE, BEST}:
        (run / name).touch()
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.name != ".lock"}
    code, _, err = run_main(capsys, "train", "scenes/tiny", f"--out={run}", *TINY_NETWORK)
    assert (code, err.count("\n")) == (2, 1)
    assert "name another directory" in err
    assert (f"--set train.init_from={run} --out {run}-again" in err) == (
        {RECIPE, BEST} <= set(files)
    )
    after = {path.name: path.read_bytes() for path in run.iterdir() if path.name != ".lock"}
    assert after == before


@pytest.mark.parametrize("how", ["lost", "damaged", "empty"])
def test_without_its_checkpoint_a_run_offers_its_best_network_and_keeps_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    run = tmp_path / "run"
    assert run_main(capsys, "train", "scenes/tiny", f"--out={run}", *TINY_NETWORK)[0] == 0
    best, path = make_better(run), run / "last.pt"
    if how == "lost":
        path.unlink()
    else:
        path.write_bytes(b"" if how == "empty" else path.read_bytes()[:-3000] + bytes(3000))
    code, _, err = run_main(capsys, "train", str(run), "--resume")
    assert (code, err.count("\n")) == (2, 1)
    assert (run / BEST).read_bytes() == best
    offer = "To go on from its best network (step 9, mIoU 90.00 %): reconet train "
    assert offer in err
    command = shlex.split(err.partition("): reconet ")[2])
    assert run_main(capsys, *command, "--device=cpu")[0] == 0
    assert load_trained(Path(f"{run}-again")).model


def test_a_worse_network_never_replaces_a_better_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    arguments = ["train", "scenes/tiny", f"--out={run}", *TINY_NETWORK]

    def dies(*_: object) -> Iterator[Step]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("reconet.engine.run.training_steps", dies)
        assert run_main(capsys, *arguments)[0] == 130
    first = (run / "last.pt").read_bytes()  # of step 0
    assert run_main(capsys, *arguments, "--resume")[0] == 0
    best = make_better(run)
    for kept in (best, best[:-3000] + bytes(3000)):
        (run / BEST).write_bytes(kept)
        (run / "last.pt").write_bytes(first)
        assert run_main(capsys, *arguments, "--resume")[0] == 0
        assert last(run)["step"] == 2
        replaced = (run / BEST).read_bytes() != kept
        assert replaced == (kept != best), "one that is damaged is no better one"


def test_a_training_that_failed_with_nothing_to_lose_may_begin_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["train", "scenes/tiny", f"--out={tmp_path / 'run'}", *TINY_NETWORK]
    with monkeypatch.context() as patch:
        patch.setattr("reconet.engine.loop.learning_rate", lambda *_: float("nan"))
        code, _, err = run_main(capsys, *words, "--set=optim.lr=0.5")
    assert code == 2
    assert "Try a lower optim.lr" in err
    assert run_main(capsys, *words)[0] == 0
    assert read_recipe(tmp_path / "run" / RECIPE).optim.lr < 0.5
    assert run_main(capsys, *words)[0] == 2, "now there is something to lose"


def test_a_best_network_that_was_damaged_is_written_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    words = ["train", "scenes/tiny", f"--out={run}", *TINY_NETWORK]
    assert run_main(capsys, *words)[0] == 0
    (run / BEST).write_bytes((run / BEST).read_bytes()[:-50] + bytes(50))
    longer = [*words, "--resume", "--set=train.steps=4"]
    code, _, err = run_main(capsys, *longer)
    assert code == 0
    assert f"{BEST} is lost or damaged" in err
    assert load_trained(run).info.step == 4
