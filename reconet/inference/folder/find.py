"""Which images are meant by files, folders, globs and lists.

A folder means the images in it and below, without hidden ones. Links are followed, but no folder
is entered twice, so a loop ends. What a former run has written is no image to predict: each
folder with a record is asked for it. No file is opened here, lists and records excepted.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import NamedTuple

from reconet.data.layout import IMAGES
from reconet.errors import DataError
from reconet.inference.folder.record import recorded_outputs

SUFFIXES = (*IMAGES, ".gif", ".jfif", ".jpe", ".ppm", ".pgm", ".pnm")


class Found(NamedTuple):
    images: list[Path]  # absolute, each once
    root: Path  # the deepest folder that all arguments share: outputs are placed as below it


def find_images(arguments: Sequence[str]) -> Found:
    """An argument that means no image is an error: nobody types one on purpose."""
    images: dict[Path, None] = {}
    bases: list[str] = []
    for argument in arguments:
        found, some = _find(argument)
        images |= dict.fromkeys(found)
        bases += some
    return Found(list(images), _common(bases))


def _find(argument: str) -> tuple[list[Path], list[str]]:
    """The images of one argument, and the folders that they are placed relative to."""
    if argument.startswith("@"):
        listed = read_list(argument[1:])
        return listed, [str(path.parent) for path in listed]
    path = Path(os.path.abspath(argument))
    if path.is_dir():
        return _need(list(walk(path)), f"no images ({', '.join(SUFFIXES)}) in {path}."), [str(path)]
    if os.path.lexists(path):
        return [path], [str(path.parent)]
    if has_magic(argument):
        return _need(_matches(argument), f"no image matches {argument!r}."), [_fixed(argument)]
    raise DataError(f"no such file or folder: {argument}.")


def _need(images: list[Path], message: str) -> list[Path]:
    if not images:
        raise DataError(message)
    return images


def walk(folder: Path, entered: set[str] | None = None) -> Iterator[Path]:
    """Images in a folder and below, in the order of their names."""
    entered = set() if entered is None else entered
    real = os.path.realpath(folder)
    if real in entered:
        return
    entered.add(real)
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise DataError(f"cannot list {folder}: {error.strerror}.") from error
    written = recorded_outputs(folder)
    for entry in entries:
        if entry.name.startswith("."):
            continue
        path = folder / entry.name
        if entry.is_dir():
            yield from (below for below in walk(path, entered) if below not in written)
        elif entry.is_file() and path.suffix.lower() in SUFFIXES and path not in written:
            yield path


def _matches(pattern: str) -> list[Path]:
    paths = [Path(os.path.abspath(name)) for name in glob(pattern, recursive=True)]
    images = sorted(path for path in paths if path.suffix.lower() in SUFFIXES and path.is_file())
    written: set[Path] = set()
    for folder in {parent for path in images for parent in path.parents}:
        written |= recorded_outputs(folder)
    return [path for path in images if path not in written]


def _fixed(pattern: str) -> str:
    """The folder above the first wildcard."""
    parts = Path(os.path.abspath(pattern)).parts
    first = next(number for number, part in enumerate(parts) if has_magic(part))
    return str(Path(*parts[:first]))


def read_list(name: str) -> list[Path]:
    """One path on each line, relative to where the command runs; "-" is the standard input.

    What is listed and missing is found out when its turn comes, as with any broken file.
    """
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise DataError(
            f"cannot read the list {name}: {(error.strerror or '').lower()}."
        ) from error
    lines = [os.fsdecode(line).strip() for line in data.removeprefix(b"\xef\xbb\xbf").splitlines()]
    if not any(lines):
        raise DataError(f"the list {name} is empty.")
    if any("\0" in line for line in lines):
        raise DataError(f"{name} is no list of paths, one on each line: it holds binary data.")
    return [Path(os.path.abspath(os.path.expanduser(line))) for line in lines if line]


def _common(folders: Sequence[str]) -> Path:
    return Path(os.path.commonpath(folders))
