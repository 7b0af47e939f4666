"""Make what a stranger may send beside damaged files, and use it.

Each kind is a function of a generator of random numbers and an empty folder. It makes something
strange in the folder and uses it. Success and one line of error are both right.
"""

import atexit
import io
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from reconet.cli import main
from reconet.system.readable import UNPRINTABLE
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
from tests.fuzz.graphs import use_strange_graph
from tests.launch import TINY_NETWORK

Rng = np.random.Generator
FILES = (LOG, STARTS, LAST, LOCK, SHEET, REPORT, RECIPE, BEST, VALIDATION, "explain", "predictions")
LONGEST = 20_000  # letters of a message
OUTSIDE = "outside"  # a folder beside everything that is used: nothing may be written there


def pick(rng: Rng, choices: Any) -> Any:
    return choices[int(rng.integers(0, len(choices)))]


# -- commands


@contextmanager
def streams() -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Let stdout and stderr be files that take nothing but UTF-8, as a terminal does."""
    before = sys.stdout, sys.stderr
    files = io.BytesIO(), io.BytesIO()
    wrapped = [
        io.TextIOWrapper(file, "utf-8", errors="strict", write_through=True) for file in files
    ]
    sys.stdout, sys.stderr = wrapped
    try:
        yield files
    finally:
        sys.stdout, sys.stderr = before
        for stream in wrapped:
            stream.detach()  # it would close its file with itself


def run_verb(*words: str) -> int:
    """Run a command. Check that it prints only what may be printed. Return its exit code."""
    with streams() as (out, err):
        code = main(words)
    texts = out.getvalue().decode(), err.getvalue().decode()
    own = [line for line in texts[1].splitlines() if line.startswith("reconet: ")]
    # Notes, and one line for each image of a folder that cannot be read, may come before.
    lines = [line for line in own if not line.startswith(("reconet: note: ", "reconet: failed: "))]
    assert code in (0, 1, 2), f"{words} ended with {code}"
    assert len(lines) <= 1, lines
    assert "Traceback" not in texts[1], texts[1][-500:]
    for text in texts:
        found = UNPRINTABLE.search(text.replace("\r", ""))
        assert not found, f"{words} printed {found[0]!r}" if found else ""
    if "--json" in words and code == 0:
        json.loads(texts[0])
    return code


# -- run directories


@cache
def finished_run() -> Path:
    """Train a tiny network once. All cases use copies of its run."""
    run = Path(tempfile.mkdtemp(prefix="reconet-fuzz-run-")) / "run"
    atexit.register(shutil.rmtree, run.parent, ignore_errors=True)
    with streams():
        assert main(["train", "scenes/tiny", f"--out={run}", *TINY_NETWORK]) == 0
        assert main(["report", str(run)]) == 0
    return run


def make_socket(path: Path) -> None:
    before = os.getcwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(before)


def make_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**37)


STRANGE: dict[str, Callable[[Path, Path], object]] = {
    "pipe": lambda path, outside: os.mkfifo(path),
    "zeros": lambda path, outside: path.symlink_to("/dev/zero"),
    "terminal": lambda path, outside: path.symlink_to("/dev/tty"),
    "full": lambda path, outside: path.symlink_to("/dev/full"),
    "loop": lambda path, outside: path.symlink_to(path.name),
    "dangling": lambda path, outside: path.symlink_to(outside / "new"),
    "long link": lambda path, outside: path.symlink_to("a/" * 2000),
    "stranger's": lambda path, outside: path.symlink_to(outside / "file"),
    "folder": lambda path, outside: path.mkdir(),
    "link to folder": lambda path, outside: path.symlink_to(outside),
    "socket": lambda path, outside: make_socket(path),
    "sparse": lambda path, outside: make_sparse(path),
    "empty": lambda path, outside: path.write_bytes(b""),
    "bytes": lambda path, outside: path.write_bytes(b"\xff\xfe\x00" * 50),
    "json": lambda path, outside: path.write_text('{"step": 1e999}\n[]\n'),
    "inner link": lambda path, outside: path.symlink_to("recipe.json"),
    "gone": lambda path, outside: None,
}


def use_strange_run(rng: Rng, folder: Path) -> None:
    """Replace some files of a run by something else, and use the run."""
    run = folder / "run"
    shutil.copytree(finished_run(), run)
    for _ in range(int(rng.integers(1, 4))):
        path = run / pick(rng, FILES)
        kind = pick(rng, list(STRANGE))
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        path.unlink(missing_ok=True)
        STRANGE[kind](path, folder / OUTSIDE)
    image = folder / "image.png"
    Image.fromarray(rng.integers(0, 256, (40, 50, 3), np.uint8)).save(image)
    verbs = (
        ("report", str(run)),
        ("train", str(run), "--resume", "--device=cpu"),
        ("show", str(run)),
        ("predict", str(run), str(image), "--device=cpu", "--precision=fp32"),
        ("share", str(run), f"--out={folder / 'shared'}"),
        ("explain", str(run), str(image), "--ranks=1", "--device=cpu"),
        ("evaluate", str(run), "--device=cpu"),
    )
    run_verb(*pick(rng, verbs))
    check_shared(folder / "shared")


def check_shared(folder: Path) -> None:
    """Check that nothing from outside of the run is shared with others."""
    for path in folder.rglob("*"):
        assert path.is_dir() or b"private" not in path.read_bytes(), f"{path.name} is private"


# kind: what makes and uses one case in a folder
HOSTILE_KINDS: dict[str, Callable[[Rng, Path], None]] = {
    "run": use_strange_run,
    "graph": use_strange_graph,
}
