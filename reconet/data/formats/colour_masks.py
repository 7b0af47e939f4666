"""Masks whose colours are classes.

Names come from labelmap.txt, a line name:red,green,blue:: for each. Without it, colours are called
by their hexadecimal digits. Masks are read
as they are: nothing overlaps, and nothing is converted.
"""

from reconet.data.formats.labelled import Format, OwnData
from reconet.data.formats.mask_data import read_masks, recognise_kind
from reconet.data.formats.tree import Tree
from reconet.system.progress import SILENT, Progress


def recognise(tree: Tree) -> str | None:
    """Look for images and masks of the same names, and colours in the masks."""
    return recognise_kind(tree, "colour")


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read where the masks are, and what their colours mean."""
    return read_masks(tree, progress)


COLOUR_MASKS = Format(
    title="masks of colours", recognise=recognise, read=read, overlaps="none", drawn=False
)
