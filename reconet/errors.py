"""Errors that a user can cause and fix. Any other exception is a bug and keeps its traceback.

ReconetError
    RecipeError             a setting, an option or a name is unknown, mistyped or out of range
        IncompleteError     a setting that has no default is not given
    DataError               a file is missing, unreadable, or holds labels outside its class list
        AbsentError         the files are not there at all
        OtherProcessError   another process failed and reports it
    CheckpointError         weights do not fit the network, or cannot be read
    TrainingError           a training cannot start or cannot continue
    OutputError             a file cannot be written: no space, no permission, no such place
    ExportError             an export cannot be made, or does not compute what its network does
    MissingExtraError       an optional part of the package is not installed
"""

import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

T = TypeVar("T")
OWN_KINDS = ("dataset", "backbone", "context", "module")  # of which a user may define more


class ReconetError(Exception):
    """Base of every error that the command line prints as one line, without a traceback."""


class RecipeError(ReconetError):
    """A setting, an option or a name is unknown, mistyped or out of range."""


class IncompleteError(RecipeError):
    """A setting that has no default is not given."""


class DataError(ReconetError):
    """A file is missing, unreadable, or holds labels outside its class list."""


class AbsentError(DataError):
    """The files are not there at all. Perhaps they were never downloaded or prepared."""


class OtherProcessError(DataError):
    """Another process failed and reports it. This process ends without a message."""


class CheckpointError(ReconetError):
    """Weights do not fit the network, or cannot be read."""


class TrainingError(ReconetError):
    """A training cannot start or cannot continue."""


class OutputError(ReconetError):
    """A file cannot be written: no space, no permission, no such place."""


class ExportError(ReconetError):
    """An export cannot be made, or does not compute what its network does."""


class MissingExtraError(ReconetError):
    """An optional part of the package is not installed."""

    def __init__(self, extra: str, needed_for: str) -> None:
        super().__init__(extra, needed_for)  # the bare arguments, so that it can be pickled

    def __str__(self) -> str:
        extra, needed_for = self.args
        return f"{needed_for} needs an extra: pip install '.[{extra}]' in the clone of reconet."


def unknown(kind: str, name: str, known: Iterable[str]) -> RecipeError:
    """Return the error for a name that does not exist, with the nearest name and all choices."""
    choices = sorted(known, key=_natural)
    near = get_close_matches(name, choices, n=1) or [
        c for c in choices if name and c.startswith(name)
    ]
    hint = f" Did you mean {near[0]!r}?" if near else ""
    exist = f" Choose from: {', '.join(choices)}." if choices else " There are none."
    own = (
        f" A {kind} of your own has to be imported first (--import, docs/python.md)."
        if kind in OWN_KINDS
        else ""
    )
    return RecipeError(f"unknown {kind} {name!r}.{hint}{exist}{own}")


def _natural(text: str) -> list[tuple[int, str]]:
    """Order numbers by value: resnet18 comes before resnet101."""
    parts = re.split(r"(\d+)", text)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def pick(table: Mapping[str, T], name: str, kind: str) -> T:
    """Look up `name` in a table, or raise an error that lists what the table holds."""
    if name in table:
        return table[name]
    raise unknown(kind, name, table)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type if it has no message."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error means that there is not enough memory.

    Python raises MemoryError. torch, on CPU and GPU, raises a RuntimeError that says so.
    """
    text = str(error)
    return isinstance(error, MemoryError) or "allocate" in text or "out of memory" in text


def is_lost_process(error: BaseException) -> bool:
    """Tell whether another process of the same task has gone, so that this one cannot go on."""
    several = int(os.environ.get("WORLD_SIZE", "1") or 1) > 1
    signs = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Timed out")
    return several and isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)
