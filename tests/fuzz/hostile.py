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
import torch
from PIL import Image
from safetensors.torch import save_file

from reconet.cli import main
from reconet.data import open_split
from reconet.engine.check import check_recipe
from reconet.errors import ReconetError
from reconet.models.trained import load_trained
from reconet.recipes import dump_recipe, find_recipe
from reconet.serve.about import ExampleImages
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
from tests.factories import tiny_network, tiny_recipe, write_run
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


# -- recipes


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


HOSTILE: list[Any] = [
    *(None, True, -1, 0, 2**31, 2**63, -(2**70), 10**40, 1e-320, 1e308, float("nan")),
    *(float("inf"), "", " ", "\0", "\x1b[2J", "\u202e", "\ud800", "a\nb", "NaN", "9" * 5000),
    *("x" * 10**5, "../../etc/passwd", "/dev/zero", "~", "%s%n", "{}", [], {}, [[]], [None]),
    *([0] * 20_000, ["a"] * 300, [-1, -1], [0, 0], [20_000, 20_000], [32_768, 32_768], [5]),
    *(["a", "b"], {"a": {"b": 1}}, {"\x1b": 1}, {"k" * 9000: 1}, nested(20), nested(900)),
]
OPTIONS = ("size", "train", "val", "seed", "classes", "title", "splits", "ignore", "label_map")
DATASETS = ("scenes", "folder", "voc12", "elsewhere", "\x1b]0;evil\x07")


def change(rng: Rng, values: dict[str, Any]) -> None:
    """Put a hostile value into a recipe: a group, a setting, an option or something unknown."""
    value = pick(rng, HOSTILE)
    group = pick(rng, [name for name in values if isinstance(values[name], dict)] or ["data"])
    match int(rng.integers(0, 10)):
        case 0:
            values[group] = value
        case 1:
            values[pick(rng, ["x", "\x1b[31m", "data.name", "format"])] = value
        case 2 | 3 | 4 if isinstance(values.get(group), dict):
            values[group][pick(rng, [*values[group], "new"])] = value
        case _ if isinstance(values.get("data"), dict):
            if not isinstance(values["data"].get("options"), dict):
                values["data"]["options"] = {}
            values["data"]["options"][pick(rng, OPTIONS)] = value
            values["data"]["name"] = pick(rng, DATASETS)


def use_hostile_recipe(rng: Rng, folder: Path) -> None:
    """Use a recipe that nobody has checked, from a run and from a shared network."""
    values = json.loads(dump_recipe(find_recipe("scenes/tiny")))
    for _ in range(int(rng.integers(1, 4))):
        change(rng, values)
    text = json.dumps(values)
    (folder / "run").mkdir()
    (folder / "run" / RECIPE).write_text(text)
    network = small_network()
    path = folder / "shared.safetensors"
    save_file(network.model.state_dict(), path, network.info.texts() | {"recipe": text})
    for use in (
        lambda: check_recipe(find_recipe(str(folder / "run"))),
        lambda: use_info(path),
        lambda: run_verb("show", str(folder / "run")),
    ):
        try:
            use()
        except ReconetError as error:
            if "\n" in str(error) or len(str(error)) > LONGEST:
                raise


def use_info(path: Path) -> None:
    info = load_trained(path).info
    ExampleImages(info).draw(0)
    ExampleImages(info).listed()
    open_split(info.recipe.data, info.recipe.data.val_split)


@cache
def small_network() -> Any:
    return tiny_network(tiny_recipe("model.aux=false"))


# -- names

PIECES = [
    *("\x1b]0;evil\x07", "\x1b[2J", "\r", "\n", "\t", "\b", "\x7f", "\x9b31m", "\u202e", "\u2028"),
    *(
        "\ufeff",
        "<b>",
        "<script>",
        "&amp;",
        "'",
        '"',
        "%s",
        "{0}",
        "\\",
        "$(id)",
        "`id`",
        "*",
        "?",
    ),
    *("[a]", "-", "--json", ".", "..", " ", "~", "@", "ä", "日本", "🙂", "é", "\u0301"),
    *(
        os.fsdecode(b"\xff"),
        os.fsdecode(b"\xc3"),
        os.fsdecode(b"\xed\xa0\x80"),
        "x" * 60,
        "x" * 200,
    ),
]


def strange_name(rng: Rng) -> str:
    """Make a name that a file system takes, of at most 240 bytes."""
    name = "".join(pick(rng, PIECES) for _ in range(int(rng.integers(1, 6))))
    cut = os.fsdecode(os.fsencode(name)[:240])
    return cut if cut.strip(".") else f"a{cut}"


def use_strange_names(rng: Rng, folder: Path) -> None:
    """Use images, folders and classes with names that a terminal or a browser might obey."""
    place = folder / strange_name(rng)
    for kind in ("images", "masks"):
        (place / kind).mkdir(parents=True)
    for _ in range(2):
        name = f"{strange_name(rng)}.png"
        Image.fromarray(rng.integers(0, 256, (40, 50, 3), np.uint8)).save(place / "images" / name)
        broken = rng.random() < 0.3
        mask_hw = rng.integers(0, 9 if broken else 2, (40, 50), np.uint8)
        Image.fromarray(mask_hw).save(place / "masks" / name)
        if rng.random() < 0.2:
            (place / "images" / name).write_bytes(b"no image")
    classes = (f"1{strange_name(rng)}", f"2{strange_name(rng)}")
    network = tiny_network(
        tiny_recipe("model.aux=false", "model.rank=2"), classes=classes, palette=((0, 0, 0),) * 2
    )
    run = write_run(folder / "run", network, log=True)
    given = json.dumps(classes)
    verbs = (
        ("predict", str(run), str(place / "images"), "--device=cpu", "--precision=fp32"),
        ("predict", str(run), str(place / "images"), "--device=cpu", "--precision=fp32", "--json"),
        ("data", "check", "folder", "--root", str(place), "--set", f"data.options.classes={given}"),
        ("report", str(run)),
        ("explain", str(run), str(next((place / "images").iterdir())), "--ranks=1"),
        ("evaluate", str(run), "--root", str(place), "--set", "data.name=folder", "--device=cpu"),
        ("show", strange_name(rng)),
        ("train", "scenes/tiny", f"--set={strange_name(rng)}={strange_name(rng)}"),
        ("evaluate", str(place)),
        ("share", str(run), f"--out={folder / 'shared'}"),
    )
    torch.set_num_threads(1)
    run_verb(*pick(rng, verbs))


# kind: what makes and uses one case in a folder
HOSTILE_KINDS: dict[str, Callable[[Rng, Path], None]] = {
    "run": use_strange_run,
    "hostile-recipe": use_hostile_recipe,
    "names": use_strange_names,
    "graph": use_strange_graph,
}
