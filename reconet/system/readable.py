"""Write counts, names and paths for people."""

import re
from pathlib import PureWindowsPath
from typing import Any

# What a terminal or a browser obeys instead of showing it: control characters, marks that turn the
# direction of text, and bytes of a file name that are no text.
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Escape what must not be printed. Names of files and classes may hold anything."""
    return UNPRINTABLE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    if 0xDC80 <= number <= 0xDCFF:  # a byte that is no UTF-8, as Python keeps it
        number -= 0xDC00
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def counted(count: int, one: str, many: str = "") -> str:
    """Join a count and its noun: 1 image, 2 images, 1,464 images, 0 classes, 3 entries.

    `many` is for words that are not a plain noun, such as "image is" and "images are".
    """
    if count == 1:
        return f"1 {one}"
    if not many:
        many = f"{one[:-1]}ies" if one.endswith("y") else one + ("es" if one.endswith("s") else "s")
    return f"{count:,} {many}"


def split_name(dataset: str, split: str, title: str) -> str:
    """Name a split for people: "voc12 val", or "mine, val" of the folder with this title."""
    return f"{title or dataset}, {split}" if dataset == "folder" else f"{dataset} {split}"


def readable_seconds(seconds: float) -> str:
    """Format a time for people: 18 s, 12 min, 2.1 h."""
    if seconds < 119.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 119.5 * 60 else f"{seconds / 3600:.1f} h"


def short_paths(value: Any) -> Any:
    """Shorten every path inside `value`, which is anything that JSON can hold."""
    if isinstance(value, dict):
        return {key: short_paths(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [short_paths(one) for one in value]
    return short_path(value) if isinstance(value, str) else value


def short_path(text: str) -> str:
    """Keep only the last name of a path that is absolute or leads out of the working directory.

    So a file which is shared does not tell how somebody's disk is arranged.
    """
    path = PureWindowsPath(text)  # knows both kinds of slash
    elsewhere = path.root or path.drive or text.startswith("~") or ".." in path.parts
    return path.name if elsewhere and path.name.strip(".") else text


def short_paths_in_text(text: str) -> str:
    """Shorten the paths in a sentence."""
    return " ".join(short_path(word) for word in text.split(" "))
