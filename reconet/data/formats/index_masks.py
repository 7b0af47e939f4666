"""Masks whose numbers are classes: 8-bit or palette PNGs, and 255 is void.

Names come from classes.txt. Without it, number 3 is called "class 3". Masks are read
as they are: nothing overlaps, and nothing is converted.
"""

from reconet.data.formats.labelled import Format, OwnData
from reconet.data.formats.mask_data import read_masks, recognise_kind
from reconet.data.formats.tree import Tree
from reconet.system.progress import SILENT, Progress


def recognise(tree: Tree) -> str | None:
    """Look for images and masks of the same names, and numbers in the masks."""
    return recognise_kind(tree, "index")


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read where the masks are, and what their numbers mean."""
    return read_masks(tree, progress)


INDEX_MASKS = Format(
    title="masks of class numbers", recognise=recognise, read=read, overlaps="none", drawn=False
)
