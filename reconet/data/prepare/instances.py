"""Drawing the instances of a COCO-like json into a label map."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reconet.errors import AbsentError, DataError, MissingExtraError
from reconet.types import Label


class Drawing(NamedTuple):
    """An image's instances: pairs of a class and a segmentation, in the order of the file."""

    height: int
    width: int
    instances: list[tuple[int, Any]]  # polygons, or run lengths, plain or compressed


def draw(drawing: Drawing, *, first_wins: bool) -> Label:
    """The label map; where instances overlap, the first or the last one is seen."""
    label_hw = np.zeros((drawing.height, drawing.width), np.uint8)
    order = reversed(drawing.instances) if first_wins else drawing.instances
    for index, segmentation in order:
        label_hw[decode(segmentation, drawing.height, drawing.width)] = index
    return label_hw


def decode(segmentation: Any, height: int, width: int) -> NDArray[np.bool_]:
    """The mask of one segmentation: polygons, or run lengths, plain or compressed."""
    if isinstance(segmentation, list):
        from pycocotools import mask  # type: ignore[import-untyped]

        parts = mask.frPyObjects(segmentation, height, width)
        return np.asarray(np.any([decode(part, height, width) for part in parts], axis=0))
    counts = segmentation["counts"]
    runs_n = np.array(counts if isinstance(counts, list) else run_lengths(counts))
    if list(segmentation["size"]) != [height, width] or runs_n.sum() != height * width:
        raise ValueError(f"its run lengths do not fill {height} x {width} pixels")
    inside_n = np.arange(len(runs_n)) % 2 == 1  # runs of outside and inside, in turn
    return np.repeat(inside_n, runs_n).reshape(width, height).T  # column by column


def run_lengths(text: str | bytes) -> list[int]:
    """Unpack the run lengths that COCO compresses into printable characters.

    Six bits each: five of a number, lowest first, and one that says "more follows". From the
    fourth number on they are differences to the number before the last.
    """
    lengths: list[int] = []
    number = shift = 0
    for byte in text.encode() if isinstance(text, str) else text:
        number |= (byte - 48 & 31) << shift
        shift += 5
        if byte - 48 & 32:
            continue
        if byte - 48 & 16:  # the highest bit is the sign
            number -= 1 << shift
        lengths.append(number + (lengths[-2] if len(lengths) > 2 else 0))
        number = shift = 0
    return lengths


def need_pycocotools(path: Path) -> None:
    """Ask before work starts in other processes."""
    try:
        import pycocotools.mask  # type: ignore[import-untyped]  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("data", f"drawing the polygons of {path}") from error


def read_json(path: Path, *lists: str) -> list[list[dict[str, Any]]]:
    """These lists of a json file; a file without them is another kind of file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return [list(content[name]) for name in lists]
    except FileNotFoundError as error:
        raise AbsentError(f"expected the file {path}, which does not exist.") from error
    except (KeyError, TypeError) as error:
        raise DataError(f"{path} has no lists {' and '.join(lists)}.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot read {path}: {error}.") from error
