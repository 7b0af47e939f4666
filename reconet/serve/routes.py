"""The HTTP interface: segment an image, store one, ask about its ranks."""

import time
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Path, Query, Request, Response

from reconet.data.images.draw import overlay as draw_overlay
from reconet.data.images.write import mask_png
from reconet.serve import schemas
from reconet.serve.explore import Explorer, count_ranks, heat_png
from reconet.serve.image_store import StoredImage
from reconet.serve.pixel_map import PixelMap, base64_text, encode_image, shrink_for_view
from reconet.serve.service import Service, compare_ranks
from reconet.serve.uploads import FIELD, TYPES
from reconet.types import Image

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
            Query(ge=0, le=1, description="answer with the image, tinted this much, as PNG"),
        ] = None,
    ) -> Any:
        """Segment an image. Accept: application/json (default), or image/png for labels."""
        as_png = wants_png(request.headers.get("accept", ""))

        def work(image_hwc: Image) -> Response | schemas.Segmentation:
            start = time.perf_counter()
            label_hw = service.predictor.best(image_hwc)[0]
            palette = service.predictor.network.info.palette
            if overlay is not None:
                mixed_hwc = draw_overlay(image_hwc, label_hw, palette, overlay)
                return Response(encode_image(".png", mixed_hwc), media_type="image/png")
            png = mask_png(label_hw, palette)
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
            pixel_map = PixelMap.predict(service.predictor, image_hwc)
            image = StoredImage(
                image_hwc=shrink_for_view(image_hwc), pixel_map=pixel_map.for_view()
            )
            return image, {
                "width": image_hwc.shape[1],
                "height": image_hwc.shape[0],
                "view_width": image.image_hwc.shape[1],
                "view_height": image.image_hwc.shape[0],
                "classes": service.class_shares(pixel_map.label_hw),
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
