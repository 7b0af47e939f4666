"""Where somebody keeps files is nobody else's business: paths without the folders before them."""

from pathlib import PureWindowsPath
from typing import Any


def short_paths(value: Any) -> Any:
    """A path that is absolute or leads out of the working directory is only its last name.
    `value` is anything that JSON can hold."""
    if isinstance(value, dict):
        return {key: short_paths(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [short_paths(one) for one in value]
    return short_path(value) if isinstance(value, str) else value


def short_path(text: str) -> str:
    path = PureWindowsPath(text)  # knows both kinds of slash
    elsewhere = path.root or path.drive or text.startswith("~") or ".." in path.parts
    return path.name if elsewhere and path.name.strip(".") else text


def short_words(text: str) -> str:
    """The same for a sentence with paths in it."""
    return " ".join(short_path(word) for word in text.split(" "))
