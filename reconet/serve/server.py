"""Open a server: the socket, the network, and uvicorn."""

import socket
import sys
import threading
import webbrowser
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reconet.errors import MissingExtraError, RecipeError
from reconet.inference import Predictor, find_network
from reconet.inference.network import is_export
from reconet.models.trained import load_trained
from reconet.system.hardware import keep_freed_memory
from reconet.system.progress import SILENT, Progress

if TYPE_CHECKING:
    from fastapi import FastAPI

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # names of this machine for itself
MOST_CONNECTIONS = 256  # beyond that, uvicorn itself answers 503
HEADER_SECONDS = 10  # in which a connection must send the headers of a request
STOP_SECONDS = 5  # for the requests in work; those that need longer get 503


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on requests and memory."""

    upload_bytes: int = 20_000_000
    pixels: int = 25_000_000  # of one image
    waiting: int = 16  # requests that wait while one is worked on
    read_seconds: float = 60.0  # in which a request must have arrived
    kept_images: int = 8
    kept_bytes: int = 2**29  # of all kept images together


@dataclass(frozen=True, kw_only=True)
class Server:
    """An application and the socket that it will answer on."""

    app: "FastAPI"
    listener: socket.socket

    @property
    def url(self) -> str:
        host, port = self.listener.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def run(self, *, open_browser: bool = False) -> None:
        """Answer requests until Ctrl-C or SIGTERM."""
        import uvicorn

        from reconet.serve.security import TimedConnection

        print(f"serving on {self.url} (Ctrl-C ends it)", file=sys.stderr, flush=True)
        if open_browser:
            threading.Timer(0.5, webbrowser.open, [self.url]).start()
        config = uvicorn.Config(
            self.app,
            http=TimedConnection,
            log_level="warning",
            access_log=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=HEADER_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
            server_header=False,
        )
        keep_freed_memory(False)  # images of many sizes leave holes that none fits
        with self.listener:
            uvicorn.Server(config).run(sockets=[self.listener])


def open_server(
    source: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    limits: Limits | None = None,
    device: str = "auto",
    precision: str | None = None,
    fast: bool = False,
    progress: Progress = SILENT,
) -> Server:
    """Listen on a port and open a network, by its path or name.

    Call run() on the result to answer requests. A server on this machine's own address answers only
    requests that call it by such a name. A server for other machines cannot know by which names
    they call it, and answers to any.
    """
    try:
        import uvicorn  # noqa: F401

        from reconet.serve.app import create_app
    except ModuleNotFoundError as error:
        raise MissingExtraError("serve", "reconet serve") from error
    listener = listen(host, port)  # first, so that a taken port is an error at once
    try:
        path = find_network(source, progress=progress).path
        predictor = Predictor.from_run(
            path, device=device, precision=precision, fast=fast, progress=progress
        )
        if fast and predictor.network.model is None and not is_export(path):
            # Images are segmented in int8. The model is for looking into its ranks.
            model = load_trained(path).model.to(predictor.device)
            predictor.network = replace(predictor.network, model=model)
        here = host in LOOPBACK
        # Images of a run's dataset are for this machine alone. A file may be a stranger's, and
        # name a folder that it knows nothing of.
        app = create_app(
            predictor,
            limits,
            hosts=LOOPBACK if here else (),
            own_examples=here and path.is_dir(),
        )
    except BaseException:  # Ctrl-C while the network loads must free the port too
        listener.close()
        raise
    return Server(app=app, listener=listener)


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise RecipeError(
            f"cannot listen on {host}:{port}: {reason.lower()}; try another --port or --host."
        ) from error
    return listener
