"""Keep the last few images that the page has sent, for further questions about them.

Nothing is written to a disk. The ids are random, so nobody can guess the id of another's image.
"""

import secrets
from collections import OrderedDict
from dataclasses import dataclass

from reconet.serve.explore import Explorer
from reconet.serve.pixel_map import PixelMap
from reconet.types import Image


@dataclass(kw_only=True, eq=False)
class StoredImage:
    """An image at the size of the page. The original is not kept."""

    image_hwc: Image
    pixel_map: PixelMap
    explorer: Explorer | None = None  # from the first question about ranks on

    @property
    def nbytes(self) -> int:
        features = self.explorer.nbytes if self.explorer else 0
        return self.image_hwc.nbytes + self.pixel_map.nbytes + features


class ImageStore:
    """A bounded store. It drops the images that were not used for longest."""

    def __init__(self, *, most: int, most_bytes: int) -> None:
        self.most, self.most_bytes = most, most_bytes
        self._by_id: OrderedDict[str, StoredImage] = OrderedDict()

    def add(self, image: StoredImage) -> str:
        """Store an image and return its id."""
        image_id = secrets.token_urlsafe(12)
        self._by_id[image_id] = image
        self.trim()
        return image_id

    def get(self, image_id: str) -> StoredImage | None:
        if image_id in self._by_id:
            self._by_id.move_to_end(image_id)
        return self._by_id.get(image_id)

    def trim(self) -> None:
        """Drop images until the store is within its bounds. The newest stays, whatever its size.

        Call it also when a stored image has grown.
        """
        while len(self._by_id) > 1 and self._is_too_large():
            self._by_id.popitem(last=False)

    def _is_too_large(self) -> bool:
        held = sum(image.nbytes for image in self._by_id.values())
        return len(self._by_id) > self.most or held > self.most_bytes
