"""The interface: segment an image, remember one, ask about its ranks.

Each route takes a request apart, lets a worker do the work, and puts an answer together.
"""

import time
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Path, Query, Request, Response

from reconet.data.images.draw import overlay as tinted
from reconet.data.images.read import index_png
from reconet.serve import schemas
from reconet.serve.desk import Desk, switched
from reconet.serve.explore import Explorer, heat_png, rank_of
from reconet.serve.image_store import StoredImage
from reconet.serve.segment import base64, encoded, hover_png, segment, shrunk
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
        404: "no such image, rank or example; images are forgotten after a while",
        408: "the upload did not arrive in time",
        413: "too many bytes or pixels",
        415: "not a type of image",
        422: "not a readable image, or a wrong parameter",
        503: "all places in the line are taken: try again after Retry-After seconds",
    }.items()
}
PNG: dict[str, Any] = {"content": {"image/png": {}}}
UPLOAD: Statuses = {status: PROBLEMS[status] for status in (408, 413, 415, 422, 503)}
KNOWN: Statuses = {422: PROBLEMS[422]}
NAMED: Statuses = {status: PROBLEMS[status] for status in (404, 422)}
ASKED: Statuses = {status: PROBLEMS[status] for status in (404, 413, 422, 503)}
SWITCHED: Statuses = {400: PROBLEMS[400], **ASKED}
Name = Annotated[str, Path(max_length=40, pattern="^[A-Za-z0-9_-]+$")]


def add_segment(app: FastAPI, desk: Desk) -> None:
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
        """Segment an image. Accept: application/json (default), or image/png for class numbers."""
        as_png = wants_png(request.headers.get("accept", ""))

        def answer(image_hwc: Image) -> Response | schemas.Segmentation:
            begin = time.perf_counter()
            label_hw = segment(desk.predictor, image_hwc).label_hw
            palette = desk.predictor.network.info.palette
            if overlay is not None:
                mixed_hwc = tinted(image_hwc, label_hw, palette, overlay)
                return Response(encoded(".png", mixed_hwc), media_type="image/png")
            png = index_png(label_hw, palette)
            if as_png:
                return Response(png, media_type="image/png")
            return schemas.Segmentation(
                width=label_hw.shape[1],
                height=label_hw.shape[0],
                classes=desk.shares(label_hw),
                labels_png=base64(png),
                seconds=time.perf_counter() - begin,
            )

        return await desk.upload(request, answer)


def add_images(app: FastAPI, desk: Desk) -> None:
    @app.post(
        "/api/images",
        response_model=schemas.Uploaded,
        responses=UPLOAD,
        openapi_extra=IMAGE_BODY,
        status_code=201,
    )
    async def add_image(request: Request) -> Any:
        """Segment an image and remember it for a while, for the questions below."""

        def answer(image_hwc: Image) -> tuple[StoredImage, dict[str, Any]]:
            begin = time.perf_counter()
            found = segment(desk.predictor, image_hwc)
            image = StoredImage(image_hwc=shrunk(image_hwc), found=found.view())
            return image, {
                "width": image_hwc.shape[1],
                "height": image_hwc.shape[0],
                "view_width": image.image_hwc.shape[1],
                "view_height": image.image_hwc.shape[0],
                "classes": desk.shares(found.label_hw),
                "seconds": time.perf_counter() - begin,
            }

        image, told = await desk.upload(request, answer)
        return schemas.Uploaded(id=desk.images.add(image), **told)

    @app.get(
        "/api/images/{name}/image.jpg",
        response_class=Response,
        responses={200: {"content": {"image/jpeg": {}}}, **NAMED},
    )
    def image_jpg(name: Name) -> Response:
        """The image as the page sees it: upright, and not larger than a screen."""
        data = encoded(".jpg", desk.image(name).image_hwc)
        return Response(data, media_type="image/jpeg")

    @app.get(
        "/api/images/{name}/hover.png",
        response_class=Response,
        responses={200: PNG, **NAMED},
    )
    def hover(name: Name) -> Response:
        """Red: the class of each pixel, green: its probability in 255ths."""
        return Response(hover_png(desk.image(name).found), media_type="image/png")


def add_ranks(app: FastAPI, desk: Desk) -> None:
    rank = rank_of(desk.predictor.network.model)
    names = desk.predictor.network.info.classes

    @app.get("/api/images/{name}/ranks", response_model=schemas.Ranks, responses=ASKED)
    async def ranks(request: Request, name: Name) -> Any:
        """The ranks of the attention, by what they contribute to this image."""

        def work(explorer: Explorer) -> schemas.Ranks:
            both = zip(explorer.weights(), explorer.shares(), strict=True)
            found = [schemas.Rank(rank=r, weight=w, share=s) for r, (w, s) in enumerate(both)]
            return schemas.Ranks(
                ranks=sorted(found, key=lambda one: -one.share),
                hover_png=base64(hover_png(explorer.whole)),
            )

        return await desk.ask(request, name, work)

    @app.post("/api/images/{name}/ranks", response_model=schemas.Switched, responses=SWITCHED)
    async def switch(request: Request, name: Name, wanted: schemas.SwitchedOff) -> Any:
        """The segmentation with some ranks switched off, and what that changes."""
        off = set(wanted.off)
        if any(not 0 <= one < rank for one in off):
            raise HTTPException(422, f"ranks go from 0 to {rank - 1}.")
        return await desk.ask(request, name, lambda explorer: switched(explorer, off, names))

    @app.get(
        "/api/images/{name}/heat/{number}.png",
        response_class=Response,
        responses={200: PNG, **ASKED},
    )
    async def heat(
        request: Request, name: Name, number: Annotated[int, Path(ge=0, lt=rank)]
    ) -> Response:
        """Where one rank re-weights the image: dark is not at all."""
        png = await desk.ask(request, name, lambda explorer: heat_png(explorer.heat(number)))
        return Response(png, media_type="image/png")


def add_no_ranks(app: FastAPI) -> None:
    """For other contexts and exported files: the questions above have no answer, and say so."""
    for url, methods in {"ranks": ["GET", "POST"], "heat/{number}.png": ["GET"]}.items():
        app.add_api_route(
            f"/api/images/{{name}}/{url}", no_ranks, methods=methods, include_in_schema=False
        )


def no_ranks() -> None:
    raise HTTPException(404, "this network has no ranks.")


def known_only(request: Request) -> None:
    """A misspelt parameter must not look as if it had been obeyed."""
    route = request.scope["route"]
    known = [one.alias for one in route.dependant.query_params]
    for name in request.query_params:
        if name not in known:
            there = f"this address takes {', '.join(known)}" if known else "this address takes none"
            raise HTTPException(422, f"unknown query parameter {name!r}; {there}.")


def wants_png(accept: str) -> bool:
    """Whether image/png is asked for, and JSON is not asked for before it."""
    kinds = [part.split(";")[0].strip().lower() for part in accept.split(",")]
    known = [kind for kind in kinds if kind in ("image/png", "image/*", "application/json")]
    return bool(known) and known[0] != "application/json"
