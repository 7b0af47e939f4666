"""The last few images that the page has sent, so that it can ask more about them.

Nothing is written to a disk. Names are random: who does not know one cannot ask for its image.
"""

import secrets
from collections import OrderedDict
from dataclasses import dataclass

from reconet.serve.explore import Explorer
from reconet.serve.segment import Map
from reconet.types import Image


@dataclass(kw_only=True, eq=False)
class StoredImage:
    """What the page sees of an image; the original is not kept."""

    image_hwc: Image
    found: Map
    explorer: Explorer | None = None  # from the first question about ranks on

    @property
    def nbytes(self) -> int:
        inside = self.explorer.nbytes if self.explorer else 0
        return self.image_hwc.nbytes + self.found.nbytes + inside


class Images:
    """Forgets those not asked about for longest, when there are too many or they are too large."""

    def __init__(self, *, most: int, most_bytes: int) -> None:
        self.most, self.most_bytes = most, most_bytes
        self._by_name: OrderedDict[str, StoredImage] = OrderedDict()

    def add(self, image: StoredImage) -> str:
        name = secrets.token_urlsafe(12)
        self._by_name[name] = image
        self.trim()
        return name

    def get(self, name: str) -> StoredImage | None:
        if name in self._by_name:
            self._by_name.move_to_end(name)
        return self._by_name.get(name)

    def trim(self) -> None:
        """To be called when an image has grown, too. The newest stays, whatever its size."""
        while len(self._by_name) > 1 and self._too_much():
            self._by_name.popitem(last=False)

    def _too_much(self) -> bool:
        held = sum(image.nbytes for image in self._by_name.values())
        return len(self._by_name) > self.most or held > self.most_bytes
