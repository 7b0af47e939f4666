"""The HTTP interface: segment an image, store one, ask about its ranks."""

import time
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, HTTPException, Path, Query, Request, Response

from reconet.data.images.draw import mask_png
from reconet.data.images.draw import overlay as draw_overlay
from reconet.inference import Predictor
from reconet.serve import schemas
from reconet.serve.explore import Explorer, count_ranks, heat_png
from reconet.serve.images import (
    FIELD,
    TYPES,
    ImageStore,
    PixelMap,
    StoredImage,
    WorkQueue,
    base64_text,
    count_pixels,
    decode_image,
    encode_image,
    read_upload,
    shrink_for_view,
    subsample_for_view,
)
from reconet.serve.server import Limits
from reconet.types import Image, Label

T = TypeVar("T")
Statuses = dict[int | str, dict[str, Any]]
IMAGE_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            **{kind: {"schema": {"type": "string", "format": "binary"}} for kind in TYPES},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": [FIELD],
                    "properties": {FIELD: {"type": "string", "format": "binary"}},
                }
            },
        },
    }
}
PROBLEMS: Statuses = {
    status: {"model": schemas.Problem, "description": what}
    for status, what in {
        400: "the body cannot be read as text",
        404: "no such image, rank or example; images are dropped after a while",
        408: "the upload did not arrive in time",
        413: "too many bytes or pixels",
        415: "not a type of image",
        422: "not a readable image, or a wrong parameter",
        503: "the queue is full: try again after Retry-After seconds",
        507: "the server has no room for the upload",
    }.items()
}
PNG: dict[str, Any] = {"content": {"image/png": {}}}
UPLOAD: Statuses = {status: PROBLEMS[status] for status in (408, 413, 415, 422, 503, 507)}
PLAIN: Statuses = {422: PROBLEMS[422]}
STORED: Statuses = {status: PROBLEMS[status] for status in (404, 422)}
EXPLORED: Statuses = {status: PROBLEMS[status] for status in (404, 413, 422, 503)}
ImageId = Annotated[str, Path(max_length=40, pattern="^[A-Za-z0-9_-]+$")]


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
                lambda: work(decode_image(data, self.limits.pixels)), request.is_disconnected
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
            image.explorer = Explorer(self.predictor, image.image_hwc)
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


def add_segment(app: FastAPI, service: Service) -> None:
    """Add the route for programs: an image in, labels out."""

    @app.post(
        "/api/segment",
        response_model=schemas.Segmentation,
        responses={200: PNG, **UPLOAD},
        openapi_extra=IMAGE_BODY,
    )
    async def segment_image(
        request: Request,
        overlay: Annotated[
            float | None,
            Query(
                ge=0,
                le=1,
                description="answer with an overlay, tinted this much, as PNG",
            ),
        ] = None,
    ) -> Any:
        """Segment an image. Accept: application/json (default), or image/png for labels."""
        as_png = wants_png(request.headers.get("accept", ""))

        def work(image_hwc: Image) -> Response | schemas.Segmentation:
            start = time.perf_counter()
            label_hw = service.predictor.best(image_hwc)[0]
            info = service.predictor.network.info
            if overlay is not None:
                mixed_hwc = draw_overlay(image_hwc, label_hw, info.palette, info.classes, overlay)
                return Response(encode_image(".png", mixed_hwc), media_type="image/png")
            png = mask_png(label_hw, info.palette)
            if as_png:
                return Response(png, media_type="image/png")
            return schemas.Segmentation(
                width=label_hw.shape[1],
                height=label_hw.shape[0],
                classes=service.class_shares(label_hw),
                labels_png=base64_text(png),
                seconds=time.perf_counter() - start,
            )

        return await service.process_upload(request, work)


def add_images(app: FastAPI, service: Service) -> None:
    """Add the routes that store an image and return it as the page shows it."""

    @app.post(
        "/api/images",
        response_model=schemas.StoredImageInfo,
        responses=UPLOAD,
        openapi_extra=IMAGE_BODY,
        status_code=201,
    )
    async def add_image(request: Request) -> Any:
        """Segment an image and keep it for a while, for the questions below."""

        def work(image_hwc: Image) -> tuple[StoredImage, dict[str, Any]]:
            start = time.perf_counter()
            maps = service.predictor.best(image_hwc)
            pixel_map = PixelMap(*map(subsample_for_view, maps))
            image = StoredImage(image_hwc=shrink_for_view(image_hwc), pixel_map=pixel_map)
            return image, {
                "width": image_hwc.shape[1],
                "height": image_hwc.shape[0],
                "view_width": image.image_hwc.shape[1],
                "view_height": image.image_hwc.shape[0],
                "classes": service.class_shares(maps[0]),
                "seconds": time.perf_counter() - start,
            }

        image, info = await service.process_upload(request, work)
        return schemas.StoredImageInfo(id=service.images.add(image), **info)

    @app.get(
        "/api/images/{image_id}/image.jpg",
        response_class=Response,
        responses={200: {"content": {"image/jpeg": {}}}, **STORED},
    )
    def image_jpg(image_id: ImageId) -> Response:
        """Return the image as the page shows it: upright, and no larger than a screen."""
        data = encode_image(".jpg", service.stored_image(image_id).image_hwc)
        return Response(data, media_type="image/jpeg")

    @app.get(
        "/api/images/{image_id}/hover.png",
        response_class=Response,
        responses={200: PNG, **STORED},
    )
    def hover_png(image_id: ImageId) -> Response:
        """Return the class of each pixel as red, and its probability in 255ths as green."""
        return Response(service.stored_image(image_id).pixel_map.png(), media_type="image/png")


def add_ranks(app: FastAPI, service: Service) -> None:
    """Add the routes that explore the ranks of a stored image."""
    rank = count_ranks(service.predictor.network.model)
    classes = service.predictor.classes

    @app.get("/api/images/{image_id}/ranks", response_model=schemas.Ranks, responses=EXPLORED)
    async def list_ranks(request: Request, image_id: ImageId) -> Any:
        """List the ranks, by what they contribute to this image."""

        def work(explorer: Explorer) -> schemas.Ranks:
            both = zip(explorer.weights(), explorer.shares(), strict=True)
            found = [schemas.Rank(rank=r, weight=w, share=s) for r, (w, s) in enumerate(both)]
            return schemas.Ranks(
                ranks=sorted(found, key=lambda one: -one.share),
                hover_png=base64_text(explorer.all_ranks.png()),
            )

        return await service.explore(request, image_id, work)

    @app.post(
        "/api/images/{image_id}/ranks",
        response_model=schemas.RankChange,
        responses={400: PROBLEMS[400], **EXPLORED},
    )
    async def switch_ranks(request: Request, image_id: ImageId, wanted: schemas.RanksOff) -> Any:
        """Segment the image with some ranks switched off, and tell what that changes."""
        off = set(wanted.off)
        if any(not 0 <= one < rank for one in off):
            raise HTTPException(422, f"ranks go from 0 to {rank - 1}.")
        return await service.explore(
            request, image_id, lambda explorer: compare_ranks(explorer, off, classes)
        )

    @app.get(
        "/api/images/{image_id}/heat/{number}.png",
        response_class=Response,
        responses={200: PNG, **EXPLORED},
    )
    async def show_heat(
        request: Request, image_id: ImageId, number: Annotated[int, Path(ge=0, lt=rank)]
    ) -> Response:
        """Show where one rank acts. Dark means not at all."""
        png = await service.explore(
            request, image_id, lambda explorer: heat_png(explorer.heat(number))
        )
        return Response(png, media_type="image/png")


def compare_ranks(
    explorer: Explorer, off: set[int], classes: tuple[str, ...]
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


def add_no_ranks(app: FastAPI) -> None:
    """Refuse questions about ranks, for other contexts and for exported files."""

    def no_ranks() -> None:
        raise HTTPException(404, "this network has no ranks.")

    for url, methods in {"ranks": ["GET", "POST"], "heat/{number}.png": ["GET"]}.items():
        app.add_api_route(
            f"/api/images/{{image_id}}/{url}", no_ranks, methods=methods, include_in_schema=False
        )


async def refuse_unknown_parameters(request: Request) -> None:
    """Refuse a misspelt query parameter, which would otherwise be ignored."""
    route = request.scope["route"]
    known = [one.alias for one in route.dependant.query_params]
    for name in request.query_params:
        if name not in known:
            takes = f"this address takes {', '.join(known) or 'none'}"
            raise HTTPException(422, f"unknown query parameter {name!r}; {takes}.")


def wants_png(accept: str) -> bool:
    """Tell whether an Accept header asks for image/png, and not for JSON before it."""
    kinds = [part.split(";")[0].strip().lower() for part in accept.split(",")]
    known = [kind for kind in kinds if kind in ("image/png", "image/*", "application/json")]
    return bool(known) and known[0] != "application/json"
