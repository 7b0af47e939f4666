"""Take images in one at a time, keep the last few, and write what was found as PNG.

A request takes its place in the queue *before* its body is read, so that the bodies in memory are
bounded too. Kept images are for further questions of the page. Nothing is written to a disk.

Dimensions: h, w pixels, c colours.
"""

import asyncio
import secrets
from base64 import b64encode
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from reconet.data.images.draw import fit
from reconet.data.images.read import TooManyPixelsError, decode_upright
from reconet.errors import DataError
from reconet.types import Image, Label

if TYPE_CHECKING:
    from reconet.serve.explore import Explorer

T = TypeVar("T")
FIELD = "image"  # of a form
TYPES = (
    *("image/jpeg", "image/png", "image/webp", "image/bmp", "image/tiff", "image/gif"),
    *("image/x-portable-pixmap", "image/x-portable-graymap", "application/octet-stream"),
)
VIEW_SIDE = 1600  # longest side in the page: the browser holds all pixels for reading them


class WorkQueue:
    """A queue in front of work that is done in a thread, one piece at a time.

    All counting happens on the thread of the event loop and needs no lock.
    """

    def __init__(self, *, waiting: int) -> None:
        self.places = waiting + 1
        self.taken = 0
        self._worker_free = asyncio.Lock()  # first come, first served

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place in the queue, or answer 503 at once."""
        if self.taken >= self.places:
            raise HTTPException(
                503, "the queue is full; try again in a moment.", {"Retry-After": "2"}
            )
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1

    async def run(self, work: Callable[[], T], is_gone: Callable[[], Awaitable[bool]]) -> T:
        """Wait for one's turn, then work in a thread. The caller must hold a place."""
        async with self._worker_free:
            if await is_gone():
                raise ClientDisconnect
            return await asyncio.to_thread(work)


async def read_upload(request: Request) -> bytes:
    """Return the bytes of the image file: the body itself, or the field `image` of a form."""
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind in TYPES:
        return await request.body()
    if kind != "multipart/form-data":
        raise HTTPException(
            415,
            f"cannot read {kind or 'a body without Content-Type'}; send an image as {TYPES[0]}, "
            f"{TYPES[1]} or the like, or as field `{FIELD}` of multipart/form-data.",
        )
    try:
        async with request.form(max_files=1, max_fields=8) as form:
            image = form.get(FIELD)
            if isinstance(image, UploadFile):
                return await image.read()
    except HTTPException as error:
        if error.status_code == 400:  # the form itself is broken
            raise HTTPException(422, f"cannot read the form: {error.detail}") from error
        raise
    except OSError as error:  # parts of a form are kept in a temporary folder, which may be full
        reason = error.strerror or error
        raise HTTPException(507, f"the server cannot keep the upload: {reason}.") from error
    raise HTTPException(422, f"the form has no file in a field `{FIELD}`.")


def decode_image(data: bytes, pixels: int) -> Image:
    """Decode an image file, or raise the HTTP error that says what is wrong with it."""
    try:
        return decode_upright(data, "the image", pixels)
    except DataError as error:
        too_large = isinstance(error, TooManyPixelsError)
        raise HTTPException(413 if too_large else 422, str(error)) from error


@dataclass(frozen=True, eq=False)
class PixelMap:
    """The most probable class of every pixel, and its probability in 255ths."""

    label_hw: Label
    probability_hw: NDArray[np.uint8]

    @property
    def nbytes(self) -> int:
        return self.label_hw.nbytes + self.probability_hw.nbytes

    def png(self) -> bytes:
        """Encode the class as red and its probability as green. The page reads both."""
        zero_hw = np.zeros_like(self.label_hw)
        return encode_image(".png", np.stack([self.label_hw, self.probability_hw, zero_hw], axis=2))


@dataclass(kw_only=True, eq=False)
class StoredImage:
    """An image at the size of the page. The original is not kept."""

    image_hwc: Image
    pixel_map: PixelMap
    explorer: "Explorer | None" = None  # from the first question about ranks on

    @property
    def nbytes(self) -> int:
        features = self.explorer.nbytes if self.explorer else 0
        return self.image_hwc.nbytes + self.pixel_map.nbytes + features


class ImageStore:
    """A bounded store. It drops the images that were not used for longest.

    The ids are random, so nobody can guess the id of another's image.
    """

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
        while len(self._by_id) > 1 and (
            len(self._by_id) > self.most
            or sum(image.nbytes for image in self._by_id.values()) > self.most_bytes
        ):
            self._by_id.popitem(last=False)


def count_pixels(label_hw: Label, num_classes: int) -> list[int]:
    """Count the pixels of each class."""
    return np.bincount(label_hw.ravel(), minlength=num_classes).tolist()  # type: ignore[no-any-return]


def shrink_for_view(image_hwc: Image) -> Image:
    """Shrink a large image to the size of the page."""
    if max(image_hwc.shape[:2]) <= VIEW_SIDE:
        return image_hwc
    return fit(image_hwc, VIEW_SIDE, VIEW_SIDE)


def subsample_for_view(value_hw: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Take the values at the pixels of the shrunk image. Labels cannot be averaged."""
    height, width = value_hw.shape
    zoom = VIEW_SIDE / max(height, width)
    if zoom >= 1:
        return value_hw
    rows, columns = (
        ((np.arange(n) + 0.5) * length / n).astype(int)
        for length in (height, width)
        for n in [max(1, round(length * zoom))]
    )
    return np.asarray(value_hw[rows][:, columns], np.uint8)


def encode_image(suffix: str, image_hwc: NDArray[np.uint8]) -> bytes:
    """Encode an RGB image as the bytes of a file."""
    success, data_n = cv2.imencode(suffix, image_hwc[..., ::-1])
    assert success
    return data_n.tobytes()


def base64_text(data: bytes) -> str:
    return b64encode(data).decode("ascii")
