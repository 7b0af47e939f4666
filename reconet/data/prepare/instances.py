"""Draw the instances of a COCO-like json into a label map."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reconet.errors import AbsentError, DataError, MissingExtraError
from reconet.system.reading import read_file
from reconet.types import Label


class Drawing(NamedTuple):
    """The instances of one image, in the order of the file."""

    height: int
    width: int
    instances: list[tuple[int, Any]]  # label, segmentation


def draw_instances(drawing: Drawing, name: str, *, first_wins: bool) -> Label:
    """Draw the labels of one image. Where instances overlap, the first or the last one wins."""
    label_hw = np.zeros((drawing.height, drawing.width), np.uint8)
    order = reversed(drawing.instances) if first_wins else drawing.instances
    try:
        for label, segmentation in order:
            label_hw[decode(segmentation, drawing.height, drawing.width)] = label
    except Exception as error:  # pycocotools raises nearly anything about bad segmentations
        raise DataError(f"cannot draw {name}: {error}.") from error
    return label_hw


def decode(segmentation: Any, height: int, width: int) -> NDArray[np.bool_]:
    """Return the pixels of a segmentation: polygons, or run lengths, plain or compressed."""
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

    A character holds six bits: five of a number, lowest first, and one that says "more follows".
    From the fourth number on they are differences to the number before the last.
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
    """Raise an error without pycocotools, before work starts in other processes."""
    try:
        import pycocotools.mask  # type: ignore[import-untyped]  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("data", f"drawing the polygons of {path}") from error


def read_json(path: Path, *lists: str) -> list[list[dict[str, Any]]]:
    """Read these lists of a json file. All of them must be there."""
    try:
        content = json.loads(read_file(path))
        return [list(content[name]) for name in lists]
    except FileNotFoundError as error:
        raise AbsentError(f"expected the file {path}, which does not exist.") from error
    except (KeyError, TypeError) as error:
        raise DataError(f"{path} has no lists {' and '.join(lists)}.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot read {path}: {error}.") from error
