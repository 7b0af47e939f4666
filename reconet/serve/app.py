"""The web application: its guard, its page, its facts, and how errors are said."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import PurePath
from typing import Annotated

from fastapi import Depends, FastAPI, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from reconet import __version__
from reconet.inference.predictor import Predictor
from reconet.serve import schemas
from reconet.serve.desk import Desk
from reconet.serve.explore import rank_of
from reconet.serve.facts import EXAMPLES, example_of, examples, model_info
from reconet.serve.guard import LOOPBACK, Guard
from reconet.serve.jobs import BusyError, GoneError
from reconet.serve.routes import (
    KNOWN,
    NAMED,
    PNG,
    add_images,
    add_no_ranks,
    add_ranks,
    add_segment,
    known_only,
)
from reconet.serve.segment import encoded
from reconet.serve.uploads import Limits

FORM_ROOM = 2**16  # what a form may need around its file
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


def create_app(
    predictor: Predictor, limits: Limits | None = None, *, hosts: Collection[str] = LOOPBACK
) -> FastAPI:
    """A network as a web application; `hosts` are the names that it answers to, none: any."""
    limits = limits or Limits()
    desk = Desk(predictor, limits)

    @asynccontextmanager
    async def life(_app: FastAPI) -> AsyncIterator[None]:
        yield
        desk.jobs.close()

    # The usual /docs load their scripts from elsewhere; no request shall leave this machine.
    app = FastAPI(
        title="reconet",
        version=__version__,
        description="Semantic segmentation by one trained network.",
        docs_url=None,
        redoc_url=None,
        lifespan=life,
        dependencies=[Depends(known_only)],
    )
    app.add_middleware(
        Guard,
        hosts=hosts,
        max_body=limits.upload_bytes + FORM_ROOM,
        read_seconds=limits.read_seconds,
    )
    _add_errors(app)
    _add_page(app)
    _add_facts(app, desk)
    add_segment(app, desk)
    add_images(app, desk)
    if rank_of(predictor.network.model):
        add_ranks(app, desk)
    else:
        add_no_ranks(app)
    return app


def _add_errors(app: FastAPI) -> None:
    """Whatever goes wrong is JSON with one line."""

    @app.exception_handler(BusyError)
    async def busy(_request: Request, _error: BusyError) -> JSONResponse:
        detail = "too many images are waiting already; try again in a moment."
        return JSONResponse({"detail": detail}, 503, {"Retry-After": "2"})

    @app.exception_handler(ClientDisconnect)
    @app.exception_handler(GoneError)
    async def gone(_request: Request, _error: Exception) -> Response:
        return Response(status_code=499)  # nobody reads it

    @app.exception_handler(RequestValidationError)
    async def wrong(_request: Request, error: RequestValidationError) -> JSONResponse:
        where = [f"{'.'.join(map(str, e['loc'][1:]))}: {e['msg']}" for e in error.errors()[:3]]
        return JSONResponse({"detail": "; ".join(where)}, 422)

    @app.exception_handler(Exception)
    async def bug(_request: Request, _error: Exception) -> JSONResponse:
        return JSONResponse({"detail": "the server failed; its log says why."}, 500)


def _add_page(app: FastAPI) -> None:
    """Not routes of the interface, so not in its document."""
    for file in files("reconet.serve").joinpath("page").iterdir():
        url = "/" if file.name == "page.html" else f"/{file.name}"
        kind = KINDS[PurePath(file.name).suffix]
        app.add_route(url, static(file.read_bytes(), kind), methods=["GET"])


def static(content: bytes, kind: str) -> Callable[[Request], Response]:
    return lambda _request: Response(content, media_type=kind)


def _add_facts(app: FastAPI, desk: Desk) -> None:
    network = desk.predictor.network
    info, shown = model_info(desk.predictor, desk.limits), examples(network)

    @app.get("/api/model", responses=KNOWN)
    async def model() -> schemas.ModelInfo:
        """The network: what it is, what it costs, what it knows."""
        return info

    @app.get("/api/examples", responses=KNOWN)
    async def list_examples() -> schemas.Examples:
        """Images to try."""
        return shown

    @app.get("/api/examples/{number}.png", response_class=Response, responses={200: PNG, **NAMED})
    def example(number: Annotated[int, Path(ge=0, lt=EXAMPLES)]) -> Response:
        return Response(encoded(".png", example_of(network, number)), media_type="image/png")

    @app.get("/health", responses=KNOWN)
    async def health() -> schemas.Health:
        return schemas.Health(status="ok", waiting=desk.jobs.taken)
