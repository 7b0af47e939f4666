"""Two trainings never write to one run directory, and nothing in it is lost."""

import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconet.engine.run_directory import Log, lock_directory, read_log
from reconet.errors import OutputError, TrainingError
from tests.launch import TINY_NETWORK, run_main


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
        "from reconet.engine.run_directory import lock_directory\n"
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


def test_the_lock_is_for_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        lock_directory(tmp_path),
        pytest.raises(TrainingError, match="another process"),
        lock_directory(tmp_path),
    ):
        pass


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
