"""A run directory may come from a stranger: what is no file in it is refused, in one line."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reconet.cli import main
from reconet.models import load_trained, save_trained
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
from tests.inference.helpers import save_image
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


def flip(data: bytearray, place: int) -> None:
    data[place] ^= 4


def zero_the_tail(data: bytearray) -> None:
    data[-3000:] = bytes(3000)


DAMAGE: dict[str, Callable[[bytearray], None]] = {
    "bit of a weight": lambda data: flip(data, -1000),
    "bit of a class": lambda data: flip(data, data.index(b"sheep")),
    "tail": zero_the_tail,
}
VERBS = {
    "predict": ("predict", "{run}", "{image}", "--out={out}"),
    "evaluate": ("evaluate", "{run}"),
    "export": ("export", "{run}", "--format=torch", "--out={out}.pt2"),
    "explain": ("explain", "{run}", "{image}", "--out={out}"),
    "prune": ("prune", "{run}", "--rank=1", "--out={out}"),
    "share": ("share", "{run}", "--out={out}"),
    "serve": ("serve", "{run}", "--port=0"),
    "report": ("report", "{run}"),
    "suggest": ("suggest", "{run}", "{image}"),
    "train": (
        "train",
        "scenes/tiny",
        "--out={out}",
        "--set=train.init_from={run}",
        *TINY_NETWORK,
    ),
}


def ask(capsys: pytest.CaptureFixture[str], verb: str, run: Path) -> str:
    """Run a verb that must refuse the network of a run. Return its one line.

    A report goes on with what it can show, such as the log.
    """
    out = run.with_name("out")
    places = {"run": run, "out": out, "image": save_image(run.with_name("image.png"))}
    code, _, err = run_main(capsys, *(word.format(**places) for word in VERBS[verb]))
    lines = [line for line in err.splitlines() if "is damaged" in line or "no finite" in line]
    assert (code, len(lines)) == (0 if verb == "report" else 2, 1), err
    assert verb == "report" or err.count("\n") == 1, err
    return lines[0]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_refuses_weights_that_the_disk_has_changed(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    whole = (finished / BEST).read_bytes()
    (tmp_path / "run").mkdir()
    shutil.copy(finished / RECIPE, tmp_path / "run")
    for name, damage in DAMAGE.items():
        data = bytearray(whole)
        damage(data)
        (tmp_path / "run" / BEST).write_bytes(data)
        assert "it is damaged" in ask(capsys, verb, tmp_path / "run"), name


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_refuses_weights_that_are_no_numbers(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    (tmp_path / "run").mkdir()
    shutil.copy(finished / RECIPE, tmp_path / "run")
    for value in (float("nan"), float("inf")):
        trained = load_trained(finished)
        dict(trained.model.named_parameters())["classify.weight"].data[0, 0] = value
        save_trained(tmp_path / "run" / BEST, trained)
        assert "classify.weight holds values that are" in ask(capsys, verb, tmp_path / "run")
