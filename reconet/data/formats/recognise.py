"""Recognise the format of a folder, and read it."""

from pathlib import Path
from typing import NamedTuple

from reconet.data.formats import FORMATS
from reconet.data.formats.labelled import OwnData
from reconet.data.formats.tree import read_tree
from reconet.data.layout import contents
from reconet.errors import DataError, pick
from reconet.system.progress import SILENT, Progress


class Recognised(NamedTuple):
    """A folder, the format that it has, and what it holds."""

    format: str  # a name of FORMATS
    evidence: str
    others: tuple[str, ...]  # formats that would fit too
    data: OwnData


def read_folder(
    folder: Path, format_name: str | None = None, progress: Progress = SILENT
) -> Recognised:
    """Read the labels of a folder, in the first format that recognises it or in the one named."""
    wanted = {format_name: pick(FORMATS, format_name, "format")} if format_name else FORMATS
    tree = read_tree(folder)
    found: dict[str, str] = {}
    for name, one in wanted.items():
        progress.status(f"is it {one.title}?")
        evidence = one.recognise(tree)
        if evidence is not None:
            found[name] = evidence
    if not found:
        raise _not_recognised(folder, format_name)
    name, *others = found
    progress.status(f"reading {FORMATS[name].title}")
    return Recognised(name, found[name], tuple(others), FORMATS[name].read(tree, progress))


def _not_recognised(folder: Path, format_name: str | None) -> DataError:
    if format_name:
        title = FORMATS[format_name].title
        return DataError(f"{folder} holds no {title}; it holds {contents(folder)}.")
    return DataError(
        f"{folder} holds no labels of a known format ({', '.join(FORMATS)}); it holds "
        f"{contents(folder)}. docs/own-data.md shows how each of them looks."
    )
