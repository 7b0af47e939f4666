"""Find out from names of files and folders which split an image is meant for."""

import re
from pathlib import Path

SPLITS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
}


def split_of_name(name: str) -> str:
    """Return train, val or test if a word of the name says so: instances_val2017 is val."""
    words = re.split(r"[^a-z]+", name.lower())
    found = {SPLITS[word] for word in words if word in SPLITS}
    return found.pop() if len(found) == 1 else ""


def split_of_folder(path: Path) -> str:
    """Return the split that a folder of a path is called: images/val/a.jpg is val."""
    for part in reversed(path.parent.parts):
        if part.lower() in SPLITS:
            return SPLITS[part.lower()]
    return ""


def split_of_file(path: Path) -> str:
    """Return the split of a file of annotations, by its own name or that of a folder."""
    return split_of_name(path.stem) or split_of_folder(path)
