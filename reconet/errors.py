"""Errors a user can cause and can mend. Everything else is a bug and keeps its traceback.

ReconetError
    RecipeError       a setting, an option or a name is unknown, mistyped or out of range
    DataError         a file is missing, unreadable, or holds labels outside its class list
        AbsentError   nothing of what was asked for is there
        EchoError     the same, of another process, which reports it
    CheckpointError   weights do not fit the model they are loaded into, or cannot be read
    TrainingError     a training cannot start here or cannot go on
    OutputError       a file cannot be written: no space, no permission, no such place
    ExportError       an export cannot be made, or does not compute what its network does
    MissingExtraError an optional part of the package is not installed
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

T = TypeVar("T")


class ReconetError(Exception):
    """Base of every error that the command line prints as one line, without a traceback."""


class RecipeError(ReconetError):
    """A setting, an option or a name is unknown, mistyped or out of range."""


class DataError(ReconetError):
    """A file is missing, unreadable, or holds labels outside its class list."""


class AbsentError(DataError):
    """Nothing of what was asked for is there: perhaps it was never downloaded or prepared."""


class EchoError(DataError):
    """An error of another process, which reports it: this one ends without a word."""


class CheckpointError(ReconetError):
    """Weights do not fit the model they are loaded into, or cannot be read."""


class TrainingError(ReconetError):
    """A training cannot start here or cannot go on."""


class OutputError(ReconetError):
    """A file cannot be written: no space, no permission, no such place."""


class ExportError(ReconetError):
    """An export cannot be made, or does not compute what its network does."""


class MissingExtraError(ReconetError):
    """An optional part of the package is not installed."""

    def __init__(self, extra: str, needed_for: str) -> None:
        super().__init__(extra, needed_for)  # as given, so that it survives being pickled

    def __str__(self) -> str:
        extra, needed_for = self.args
        return f"{needed_for} needs an extra: pip install 'reconet[{extra}]'."


def unknown(kind: str, name: str, known: Iterable[str]) -> RecipeError:
    """The error for a name that does not exist: what was asked, what is nearest, what exists."""
    choices = sorted(known, key=_natural)
    near = get_close_matches(name, choices, n=1) or [
        c for c in choices if name and c.startswith(name)
    ]
    hint = f" Did you mean {near[0]!r}?" if near else ""
    exist = f" Choose from: {', '.join(choices)}." if choices else " There are none."
    return RecipeError(f"unknown {kind} {name!r}.{hint}{exist}")


def _natural(text: str) -> list[tuple[int, str]]:
    """resnet18 before resnet101."""
    parts = re.split(r"(\d+)", text)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def pick(table: Mapping[str, T], name: str, kind: str) -> T:
    """Look up `name`, or say what was asked, what is nearest, and what exists."""
    if name in table:
        return table[name]
    raise unknown(kind, name, table)


def first_line(error: BaseException) -> str:
    """Of what an error of another library says; its kind, where it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
