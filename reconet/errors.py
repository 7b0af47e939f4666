"""Errors a user can cause and can mend. Everything else is a bug and keeps its traceback.

ReconetError
    RecipeError       a setting, an option or a name is unknown, mistyped or out of range
    DataError         a file is missing, unreadable, or holds labels outside its class list
    CheckpointError   weights do not fit the model they are loaded into, or cannot be read
    OutputError       a file cannot be written: no space, no permission, no such place
    MissingExtraError an optional part of the package is not installed
"""

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


class CheckpointError(ReconetError):
    """Weights do not fit the model they are loaded into, or cannot be read."""


class OutputError(ReconetError):
    """A file cannot be written: no space, no permission, no such place."""


class MissingExtraError(ReconetError):
    """An optional part of the package is not installed."""

    def __init__(self, extra: str, needed_for: str) -> None:
        super().__init__(f"{needed_for} needs an extra: pip install 'reconet[{extra}]'.")


def unknown(kind: str, name: str, known: Iterable[str]) -> RecipeError:
    """The error for a name that does not exist: what was asked, what is nearest, what exists."""
    choices = sorted(known)
    near = get_close_matches(name, choices, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    exist = f" Choose from: {', '.join(choices)}." if choices else " There are none."
    return RecipeError(f"unknown {kind} {name!r}.{hint}{exist}")


def pick(table: Mapping[str, T], name: str, kind: str) -> T:
    """Look up `name`, or say what was asked, what is nearest, and what exists."""
    if name in table:
        return table[name]
    raise unknown(kind, name, table)
