"""Masks of two values: 0 is background and 255 is foreground.

Grey pixels of smooth edges, half-way between black and white, are void. Masks are read
as they are: nothing overlaps, and nothing is converted.
"""

from reconet.data.formats.labelled import Format, OwnData
from reconet.data.formats.mask_data import read_masks, recognise_kind
from reconet.data.formats.tree import Tree
from reconet.system.progress import SILENT, Progress


def recognise(tree: Tree) -> str | None:
    """Look for images and masks of the same names, and black and white in the masks."""
    return recognise_kind(tree, "two")


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read where the masks are, and what their values mean."""
    return read_masks(tree, progress)


BLACK_WHITE_MASKS = Format(
    title="black and white masks", recognise=recognise, read=read, overlaps="none", drawn=False
)
