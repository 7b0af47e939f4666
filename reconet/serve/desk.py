"""What the routes share: the network, the line of those who wait, the images remembered."""

from collections.abc import Callable, Collection
from typing import TypeVar

from fastapi import HTTPException, Request

from reconet.inference.predictor import Predictor
from reconet.serve import schemas
from reconet.serve.explore import Explorer, TooMuchError
from reconet.serve.image_store import Images, StoredImage
from reconet.serve.jobs import Jobs
from reconet.serve.segment import base64, counts, hover_png
from reconet.serve.uploads import Limits, decode, read_image
from reconet.types import Image, Label

T = TypeVar("T")


class Desk:
    """Takes images and questions in, and hands them to the worker."""

    def __init__(self, predictor: Predictor, limits: Limits) -> None:
        self.predictor, self.limits = predictor, limits
        self.jobs = Jobs(waiting=limits.waiting)
        self.images = Images(most=limits.kept_images, most_bytes=limits.kept_bytes)

    async def upload(self, request: Request, answer: Callable[[Image], T]) -> T:
        """Take a place in the line, then the image, then wait for the answer."""
        async with self.jobs.place():
            data = await read_image(request)
            if len(data) > self.limits.upload_bytes:
                raise HTTPException(413, "the image has too many bytes.")
            return await self.jobs.run(
                lambda: answer(decode(data, self.limits)), request.is_disconnected
            )

    async def ask(self, request: Request, name: str, question: Callable[[Explorer], T]) -> T:
        """Wait for an answer about the ranks of an image that was sent before."""
        image = self.image(name)
        async with self.jobs.place():
            answer = await self.jobs.run(
                lambda: question(self.explorer(image)), request.is_disconnected
            )
        self.images.trim()
        return answer

    def image(self, name: str) -> StoredImage:
        image = self.images.get(name)
        if image is None:
            raise HTTPException(404, "this image is not here any more; send it again.")
        return image

    def explorer(self, image: StoredImage) -> Explorer:
        """In a worker: the first question about ranks takes a look inside."""
        if image.explorer is None:
            try:
                image.explorer = Explorer(self.predictor, image.image_hwc)
            except TooMuchError as error:
                raise HTTPException(
                    413, "the image has too many windows to explore its ranks; try a smaller one."
                ) from error
        return image.explorer

    def shares(self, label_hw: Label) -> list[schemas.ClassShare]:
        network = self.predictor.network
        found = [
            schemas.ClassShare(
                index=index,
                name=network.info.classes[index],
                colour=network.info.palette[index],
                pixels=pixels,
                share=pixels / label_hw.size,
            )
            for index, pixels in enumerate(counts(label_hw, len(network.info.classes)))
            if pixels
        ]
        return sorted(found, key=lambda one: -one.pixels)


def switched(explorer: Explorer, off: Collection[int], names: tuple[str, ...]) -> schemas.Switched:
    before_hw, now = explorer.whole.label_hw, explorer.without(off)
    other_hw = before_hw != now.label_hw
    gained = counts(now.label_hw[other_hw], len(names))
    lost = counts(before_hw[other_hw], len(names))
    return schemas.Switched(
        changed=int(other_hw.sum()),
        pixels=other_hw.size,
        by_class=[
            schemas.ClassChange(index=k, name=names[k], gained=gained[k], lost=lost[k])
            for k in range(len(names))
            if gained[k] or lost[k]
        ],
        hover_png=base64(hover_png(now)),
    )
