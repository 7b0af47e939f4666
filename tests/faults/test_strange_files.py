"""A run directory may come from a stranger: what is no file in it is refused, in one line."""

import os
import shutil
from pathlib import Path

import pytest

from reconet.cli import main
from reconet.system.run_files import (
    BEST,
    LAST,
    LOCK,
    LOG,
    RECIPE,
    REPORT,
    SHEET,
    STARTS,
    VALIDATION,
)
from tests.launch import TINY_NETWORK, run_main

FILES = (LOG, STARTS, LAST, LOCK, SHEET, REPORT, RECIPE, BEST, VALIDATION)
KINDS = ("pipe", "device", "loop", "dangling")
QUICK = {(LOG, "pipe"), (LAST, "device"), (LOCK, "pipe"), (SHEET, "dangling"), (REPORT, "loop")}
CASES = [
    pytest.param(name, kind, marks=() if (name, kind) in QUICK else pytest.mark.slow)
    for name in FILES
    for kind in KINDS
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a tiny network and report on it."""
    run = tmp_path_factory.mktemp("strange") / "run"
    assert main(["train", "scenes/tiny", f"--out={run}", *TINY_NETWORK]) == 0
    assert main(["report", str(run)]) == 0
    return run


def replace_by(path: Path, kind: str, outside: Path) -> None:
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        targets = {"device": Path("/dev/zero"), "loop": Path(path.name), "dangling": outside}
        path.symlink_to(targets[kind])


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_what_is_no_file_is_refused_and_nothing_is_written_elsewhere(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, kind: str
) -> None:
    outside = tmp_path / "outside"
    for number, verb in enumerate((("report",), ("train", "--resume"))):
        run = tmp_path / f"run{number}"
        shutil.copytree(finished, run)
        replace_by(run / name, kind, outside)
        code, _, err = run_main(capsys, verb[0], str(run), *verb[1:])
        assert code in (0, 2), err
        assert "Traceback" not in err
        assert len([line for line in err.splitlines() if line.startswith("reconet: ")]) <= 1
        assert not outside.exists()
