"""What the routes share: the network, the queue, and the stored images."""

from collections.abc import Callable, Collection
from typing import TypeVar

from fastapi import HTTPException, Request

from reconet.inference.predictor import Predictor
from reconet.serve import schemas
from reconet.serve.explore import Explorer, TooManyWindowsError
from reconet.serve.image_store import ImageStore, StoredImage
from reconet.serve.limits import Limits
from reconet.serve.pixel_map import base64_text, count_pixels
from reconet.serve.uploads import decode_image, read_upload
from reconet.serve.work_queue import WorkQueue
from reconet.types import Image, Label

T = TypeVar("T")


class Service:
    """Takes images and questions from requests, and lets the worker answer them."""

    def __init__(self, predictor: Predictor, limits: Limits) -> None:
        self.predictor, self.limits = predictor, limits
        self.queue = WorkQueue(waiting=limits.waiting)
        self.images = ImageStore(most=limits.kept_images, most_bytes=limits.kept_bytes)

    async def process_upload(self, request: Request, work: Callable[[Image], T]) -> T:
        """Take a place in the queue, read the image, and work on it when it is its turn."""
        async with self.queue.place():
            data = await read_upload(request)
            if len(data) > self.limits.upload_bytes:
                raise HTTPException(413, "the image has too many bytes.")
            return await self.queue.run(
                lambda: work(decode_image(data, self.limits)), request.is_disconnected
            )

    async def explore(self, request: Request, image_id: str, work: Callable[[Explorer], T]) -> T:
        """Answer a question about the ranks of a stored image when it is its turn."""
        image = self.stored_image(image_id)
        async with self.queue.place():
            answer = await self.queue.run(
                lambda: work(self._explorer(image)), request.is_disconnected
            )
        self.images.trim()
        return answer

    def stored_image(self, image_id: str) -> StoredImage:
        image = self.images.get(image_id)
        if image is None:
            raise HTTPException(404, "this image is not stored any more; send it again.")
        return image

    def _explorer(self, image: StoredImage) -> Explorer:
        """Return the explorer of an image. The worker makes it at the first question."""
        if image.explorer is None:
            try:
                image.explorer = Explorer(self.predictor, image.image_hwc)
            except TooManyWindowsError as error:
                raise HTTPException(
                    413, "the image has too many windows to explore its ranks; try a smaller one."
                ) from error
        return image.explorer

    def class_shares(self, label_hw: Label) -> list[schemas.ClassShare]:
        """List the classes in an image, the largest first."""
        info = self.predictor.network.info
        found = [
            schemas.ClassShare(
                index=index,
                name=info.classes[index],
                colour=info.palette[index],
                pixels=pixels,
                share=pixels / label_hw.size,
            )
            for index, pixels in enumerate(count_pixels(label_hw, len(info.classes)))
            if pixels
        ]
        return sorted(found, key=lambda one: -one.pixels)


def compare_ranks(
    explorer: Explorer, off: Collection[int], classes: tuple[str, ...]
) -> schemas.RankChange:
    """Segment with some ranks switched off, and count the pixels that change."""
    before_hw, without = explorer.all_ranks.label_hw, explorer.without(off)
    changed_hw = before_hw != without.label_hw
    gained = count_pixels(without.label_hw[changed_hw], len(classes))
    lost = count_pixels(before_hw[changed_hw], len(classes))
    return schemas.RankChange(
        changed=int(changed_hw.sum()),
        pixels=changed_hw.size,
        by_class=[
            schemas.ClassChange(index=k, name=classes[k], gained=gained[k], lost=lost[k])
            for k in range(len(classes))
            if gained[k] or lost[k]
        ],
        hover_png=base64_text(without.png()),
    )
