"""Find the files of a dataset. Errors say what was expected, and what is there instead."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from reconet.errors import AbsentError, DataError
from reconet.system.reading import read_text

IMAGES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")
MASKS = (".png", ".bmp", ".tif", ".tiff", ".gif", ".webp")
SPLIT_NAMES = {
    "train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val",
    "test": "test", "testing": "test",
}  # fmt: skip


def find_root(root: Path, title: str, expected: Sequence[str], inner: Sequence[str] = ()) -> Path:
    """Return the folder that has all of `expected` in it: the root, or one near it.

    `inner` is the official path down to it: with ("VOCdevkit", "VOC2012") the root may be the
    folder that holds VOCdevkit, VOCdevkit, VOC2012, or a folder inside VOC2012.
    """
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        kind = DataError if root.exists() else AbsentError
        raise kind(f"{root} {what}; it should hold {title}: {', '.join(expected)}.")
    below = [root.joinpath(*inner[start:]) for start in range(len(inner))]
    for folder in [*below, root, root.absolute().parent]:
        if all((folder / name).exists() for name in expected):
            return folder
    raise DataError(
        f"{root} does not look like {title}: expected {', '.join(expected)} in it; "
        f"found {contents(root)}."
    )


def contents(folder: Path, most: int = 6) -> str:
    """List the first few entries of a folder, for a message."""
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more if names else "nothing"


def need_folder(folder: Path, hint: str = "") -> Path:
    """Return the folder, which must exist and not be empty."""
    advice = f" {hint}" if hint else ""
    if not folder.is_dir():
        near = next(parent for parent in folder.absolute().parents if parent.is_dir())
        raise AbsentError(f"expected the folder {folder}; {near} holds {contents(near)}.{advice}")
    with os.scandir(folder) as entries:
        if next(entries, None) is None:
            raise DataError(f"the folder {folder} is empty.{advice}")
    return folder


def files_in(folder: Path, suffixes: Iterable[str] = IMAGES, hint: str = "") -> list[Path]:
    """Return the files with these suffixes in a folder, sorted. There must be one."""
    wanted = tuple(suffixes)
    need_folder(folder, hint)
    files = [path for path in sorted(folder.iterdir()) if has_suffix(path, wanted)]
    if not files:
        raise DataError(f"no {' or '.join(wanted)} files in {folder}; found {contents(folder)}.")
    return files


def has_suffix(path: Path, suffixes: Sequence[str]) -> bool:
    """Return whether a file has one of these suffixes and is not hidden."""
    return path.suffix.lower() in suffixes and not path.name.startswith(".")


def split_called(name: str) -> str:
    """Return the split of a folder or file of this name, such as Train, valid or train2017."""
    return SPLIT_NAMES.get(name.lower().rstrip("0123456789_-"), "")


def read_lines(path: Path, hint: str = "") -> list[str]:
    """Read the lines of a list that are not blank. No line may occur twice."""
    advice = f" {hint}" if hint else ""
    try:
        text = read_text(path)
    except FileNotFoundError as error:
        raise AbsentError(f"expected the list {path}, which does not exist.{advice}") from error
    except (OSError, ValueError) as error:  # not UTF-8, or a name that no file can have
        raise DataError(f"cannot read the list {path}: {error}.") from error
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise DataError(f"the list {path} is empty.{advice}")
    if len(set(lines)) < len(lines):
        twice = next(line for line in lines if lines.count(line) > 1)
        raise DataError(f"the list {path} has {twice!r} more than once.")
    return lines


def read_ids(path: Path, hint: str = "") -> list[str]:
    """Read a list of names. A line such as "/JPEGImages/a.jpg /Labels/a.png" names "a"."""
    return [
        line.split()[0].replace("\\", "/").split("/")[-1].partition(".")[0]
        for line in read_lines(path, hint)
    ]
