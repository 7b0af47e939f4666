"""The web application: page, routes, security and error messages."""

from collections.abc import Callable, Collection
from importlib.resources import files
from pathlib import PurePath
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from reconet import __version__
from reconet.errors import DataError
from reconet.inference import Predictor
from reconet.serve import schemas
from reconet.serve.about import EXAMPLES, ExampleImages, describe_model
from reconet.serve.explore import count_ranks
from reconet.serve.images import encode_image
from reconet.serve.routes import (
    PLAIN,
    PNG,
    STORED,
    Service,
    add_images,
    add_no_ranks,
    add_ranks,
    add_segment,
    refuse_unknown_parameters,
)
from reconet.serve.security import SecurityMiddleware
from reconet.serve.server import LOOPBACK, Limits

FORM_BYTES = 2**16  # that a form may have around its file
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


def create_app(
    predictor: Predictor,
    limits: Limits | None = None,
    *,
    hosts: Collection[str] = LOOPBACK,
    own_examples: bool = False,
) -> FastAPI:
    """Make a web application that serves a network.

    `hosts` are the names that it answers to. If it is empty, it answers to any. `own_examples`
    offers validation images of the network's dataset, which everybody who asks can then see.
    """
    limits = limits or Limits()
    service = Service(predictor, limits)

    # FastAPI's /docs load scripts from elsewhere, and no request must leave this machine.
    app = FastAPI(
        title="reconet",
        version=__version__,
        description="Semantic segmentation by one trained network.",
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(refuse_unknown_parameters)],
    )
    app.add_middleware(
        SecurityMiddleware,
        hosts=hosts,
        max_body=limits.upload_bytes + FORM_BYTES,
        read_seconds=limits.read_seconds,
    )
    _add_errors(app)
    _add_page(app)
    _add_info(app, service, ExampleImages(predictor.network.info, own=own_examples))
    add_segment(app, service)
    add_images(app, service)
    if count_ranks(predictor.network.model):
        add_ranks(app, service)
    else:
        add_no_ranks(app)
    return app


def _add_errors(app: FastAPI) -> None:
    """Answer every error with JSON of one line."""

    @app.exception_handler(ClientDisconnect)
    async def client_gone(_request: Request, _error: Exception) -> Response:
        return Response(status_code=499)  # nobody reads it

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        where = [f"{'.'.join(map(str, e['loc'][1:]))}: {e['msg']}" for e in error.errors()[:3]]
        return JSONResponse({"detail": "; ".join(where)}, 422)

    @app.exception_handler(Exception)
    async def failed(_request: Request, _error: Exception) -> JSONResponse:
        return JSONResponse({"detail": "the server failed; its log says why."}, 500)


def _add_page(app: FastAPI) -> None:
    """Add the files of the page. They are not in the OpenAPI document."""
    for file in files("reconet.serve").joinpath("page").iterdir():
        url = "/" if file.name == "page.html" else f"/{file.name}"
        media_type = MEDIA_TYPES[PurePath(file.name).suffix]
        app.add_route(url, _static(file.read_bytes(), media_type), methods=["GET"])


def _static(content: bytes, media_type: str) -> Callable[[Request], Response]:
    return lambda _request: Response(content, media_type=media_type)


def _add_info(app: FastAPI, service: Service, all_examples: ExampleImages) -> None:
    """Add the routes that describe the network, the examples and the server."""
    model_info = describe_model(service.predictor, service.limits)

    @app.get("/api/model", responses=PLAIN)
    async def model() -> schemas.ModelInfo:
        """Describe the network: recipe, classes, score and cost."""
        return model_info

    @app.get("/api/examples", responses=PLAIN)
    async def examples() -> schemas.Examples:
        """List images to try."""
        return all_examples.listed()

    @app.get("/api/examples/{number}.png", response_class=Response, responses={200: PNG, **STORED})
    def example(number: Annotated[int, Path(ge=0, lt=EXAMPLES)]) -> Response:
        if number >= len(all_examples):
            raise HTTPException(404, "no such example.")
        try:
            image_hwc = all_examples.draw(number)
        except DataError as error:  # a file was there when the server started
            raise HTTPException(404, "this example is not there any more.") from error
        return Response(encode_image(".png", image_hwc), media_type="image/png")

    @app.get("/health", responses=PLAIN)
    async def health() -> schemas.Health:
        return schemas.Health(status="ok", waiting=service.queue.taken)
