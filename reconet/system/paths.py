"""Shorten paths, so that a file which is shared does not tell how somebody's disk is arranged."""

from pathlib import PureWindowsPath
from typing import Any


def short_paths(value: Any) -> Any:
    """Shorten every path inside `value`, which is anything that JSON can hold."""
    if isinstance(value, dict):
        return {key: short_paths(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [short_paths(one) for one in value]
    return short_path(value) if isinstance(value, str) else value


def short_path(text: str) -> str:
    """Keep only the last name of a path that is absolute or leads out of the working directory."""
    path = PureWindowsPath(text)  # knows both kinds of slash
    elsewhere = path.root or path.drive or text.startswith("~") or ".." in path.parts
    return path.name if elsewhere and path.name.strip(".") else text


def short_paths_in_text(text: str) -> str:
    """Shorten the paths in a sentence."""
    return " ".join(short_path(word) for word in text.split(" "))
