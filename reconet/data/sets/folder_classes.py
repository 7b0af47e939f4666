"""Class names that a text file in the root tells, for masks that another program has written.

labelmap.txt    of CVAT: a line "name:red,green,blue::" for each class; masks are read as colours
classes.txt     a name on each line; number i in the masks is the i-th
"""

import re
from collections.abc import Mapping
from pathlib import Path

from reconet.data.layout import read_lines
from reconet.errors import DataError

LABEL_MAP, CLASSES = "labelmap.txt", "classes.txt"
LINE = re.compile(
    r"(?P<name>[^:]+):\s*(?P<red>\d{1,3})\s*,\s*(?P<green>\d{1,3})\s*,\s*(?P<blue>\d{1,3})\s*:.*"
)
VOID_NAMES = ("ignore", "ignored", "void", "unlabelled", "unlabeled")


def with_classes_of_root(root: Path, options: Mapping[str, object]) -> Mapping[str, object]:
    """Add class names, and colours, from the root's own files, where the options name none."""
    if "classes" in options:
        return options
    if (root / LABEL_MAP).is_file():
        colours = read_label_map(root / LABEL_MAP)
        names: list[object] = [name for name in colours if name != "ignore"]
        if "label_map" in options or "colours" in options:
            return {**options, "classes": names}
        values: dict[str, object] = {name: list(rgb) for name, rgb in colours.items()}
        return {**options, "classes": names, "colours": values}
    if (root / CLASSES).is_file():
        listed: list[object] = list(read_lines(root / CLASSES))
        return {**options, "classes": listed}
    return options


def read_label_map(path: Path) -> dict[str, tuple[int, int, int]]:
    """Read the colour of each class, in order. A name such as void becomes "ignore"."""
    colours: dict[str, tuple[int, int, int]] = {}
    for line in read_lines(path):
        if line.startswith("#"):
            continue
        match = LINE.fullmatch(line)
        if match is None:
            raise DataError(
                f"{path}: expected lines such as road:128,64,128:: as CVAT writes them, got "
                f"{line!r}. For names alone, call the file {CLASSES}."
            )
        name = match["name"].strip()
        name = "ignore" if name.lower() in VOID_NAMES else name
        colour = int(match["red"]), int(match["green"]), int(match["blue"])
        if max(colour) > 255:
            raise DataError(f"{path}: red, green and blue are 0 to 255, got {line!r}.")
        if name in colours:
            raise DataError(f"{path} has {name!r} more than once (void names become 'ignore').")
        if colour in colours.values():
            raise DataError(f"{path} has the colour of {line!r} more than once.")
        colours[name] = colour
    if not colours.keys() - {"ignore"}:
        raise DataError(f"{path} names no class.")
    return colours
