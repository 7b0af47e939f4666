"""What a format of pre-labels gets, and what it makes of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from reconet.data.formats.labelled import BACKGROUND_NAMES
from reconet.data.images.read import read_mask
from reconet.system.readable import printable
from reconet.types import Colour, Label


class PrelabelledImage(NamedTuple):
    """An image with the mask that a network has predicted for it."""

    name: str  # where it is below the folder of the images: sub/street.jpg
    path: Path
    stem: str  # of the files that are written for it: sub/street
    mask: Path

    def labels(self) -> Label:
        """Read the predicted labels."""
        return read_mask(self.mask)


class LabelClasses(NamedTuple):
    """The classes that are written."""

    names: Mapping[int, str]  # by label
    colours: Mapping[int, str]  # by label, such as #804080

    def numbered(self) -> list[tuple[int, int, str]]:
        """Return number, label and name of each class. Formats count without the background."""
        return [(number, label, name) for number, (label, name) in enumerate(self.names.items())]


class TextFile(NamedTuple):
    """A file of pre-labels, in a folder of its format."""

    name: str
    text: str


# (images, classes, folder that the files will be in) -> files
Encode = Callable[[Iterable[PrelabelledImage], LabelClasses, Path], Iterator[TextFile]]


class PrelabelFormat(NamedTuple):
    """A format that a labelling tool opens. The function is in a file of its own."""

    title: str
    encode: Encode


def classes_to_write(classes: Sequence[str], palette: Sequence[Colour]) -> LabelClasses:
    """Name all classes but the background: class 0, if it is called so.

    In these formats pixels in no region are background. A region of it would cover the image.
    """
    names = {label: printable(" ".join(name.split())) for label, name in enumerate(classes)}
    if names and names[0].lower() in BACKGROUND_NAMES:
        del names[0]
    colours = {label: "#{:02x}{:02x}{:02x}".format(*palette[label]) for label in names}
    return LabelClasses(names, colours)
