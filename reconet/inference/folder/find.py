"""Find the images that files, folders, globs and lists name.

A folder means the images in it and below it, without hidden ones. Links are followed, but no
folder is entered twice, so a loop ends. Links that lead nowhere and folders that cannot be listed
stop nothing: they fail later, by their names. Files that a former run wrote are not predicted: each
folder with a record is asked for them. Only lists and records are opened here.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import NamedTuple

from reconet.data.images.read import optional_formats
from reconet.data.layout import IMAGES
from reconet.errors import DataError
from reconet.inference.folder.record import RECORD, recorded_outputs
from reconet.system.reading import is_folder_entry, read_file

SUFFIXES = (*IMAGES, ".gif", ".jfif", ".jpe", ".ppm", ".pgm", ".pnm", *optional_formats())


class FoundImages(NamedTuple):
    """The images that are to be predicted."""

    paths: list[Path]  # absolute, each once
    root: Path  # the deepest folder that all arguments share; outputs keep their places below it
    untried: dict[str, int]  # other files in the folders: how many of each suffix


def find_images(arguments: Sequence[str]) -> FoundImages:
    """Find the images of all arguments. Raise if an argument names none."""
    images: dict[Path, None] = {}
    bases: list[str] = []
    untried: Counter[str] = Counter()
    for argument in arguments:
        found, some = _find(argument, untried)
        images |= dict.fromkeys(found)
        bases += some
    return FoundImages(list(images), Path(os.path.commonpath(bases)), dict(untried.most_common()))


def _find(argument: str, untried: Counter[str]) -> tuple[list[Path], list[str]]:
    """Return the images of one argument, and the folders that their places are relative to."""
    if argument.startswith("@"):
        listed = read_list(argument[1:])
        return listed, [str(path.parent) for path in listed]
    path = Path(os.path.abspath(argument))
    if path.is_dir():
        unlisted: list[Path] = []
        files = list(walk(path, unlisted))
        images = [file for file in files if file.suffix.lower() in SUFFIXES] + unlisted
        if not images:
            raise DataError(f"no images ({', '.join(SUFFIXES)}) in {path}.")
        others = [file for file in files if file.suffix.lower() not in SUFFIXES]
        untried.update(file.suffix.lower() or "no suffix" for file in others)
        return images, [str(path)]
    if os.path.lexists(path):
        return [path], [str(path.parent)]
    if has_magic(argument):
        images = _match(argument)
        if not images:
            raise DataError(f"no image matches {argument!r}.")
        return images, [_folder_above_wildcard(argument)]
    raise DataError(f"no such file or folder: {argument}.")


def walk(folder: Path, unlisted: list[Path]) -> Iterator[Path]:
    """Yield the files in a folder and below, in the order of their names, but none of ours.

    Folders below that cannot be listed are added to `unlisted`.
    """
    entered: set[tuple[int, int]] = set()
    written: set[Path] = set()
    todo = [(folder, True)]
    while todo:
        path, is_folder = todo.pop()
        if not is_folder:
            if path not in written:
                yield path
            continue
        try:
            status = os.stat(path)
            entries = sorted(os.scandir(path), key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            if path == folder:
                raise DataError(f"cannot list {folder}: {error.strerror}.") from error
            unlisted.append(path)
            continue
        if (status.st_dev, status.st_ino) in entered:
            continue
        entered.add((status.st_dev, status.st_ino))
        written |= recorded_outputs(path)
        for entry in entries:
            below = is_folder_entry(entry)
            is_file = entry.is_file(follow_symlinks=False) or entry.is_symlink()
            if (below or is_file) and entry.name != RECORD and not entry.name.startswith("."):
                todo.append((path / entry.name, below))


def _match(pattern: str) -> list[Path]:
    try:
        paths = [Path(os.path.abspath(name)) for name in glob(pattern, recursive=True)]
    except RecursionError as error:
        raise DataError(
            f"the folders of {pattern!r} nest too deeply for a pattern; name the folder itself."
        ) from error
    images = sorted(path for path in paths if path.suffix.lower() in SUFFIXES and path.is_file())
    written: set[Path] = set()
    for folder in {parent for path in images for parent in path.parents}:
        written |= recorded_outputs(folder)
    return [path for path in images if path not in written]


def _folder_above_wildcard(pattern: str) -> str:
    parts = Path(os.path.abspath(pattern)).parts
    first = next(number for number, part in enumerate(parts) if has_magic(part))
    return str(Path(*parts[:first]))


def read_list(name: str) -> list[Path]:
    """Read a list of paths, one on each line. "-" reads the standard input.

    Paths are relative to the working directory. A listed file that is missing fails later, when it
    is to be predicted, like any broken file.
    """
    try:
        data = sys.stdin.buffer.read() if name == "-" else read_file(Path(name))
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
