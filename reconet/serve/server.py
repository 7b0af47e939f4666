"""The socket, and uvicorn on it."""

import socket
import sys
import threading
import webbrowser

import uvicorn
from fastapi import FastAPI

from reconet.errors import RecipeError

MOST_CONNECTIONS = 256  # beyond that, uvicorn itself answers 503


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, or one line about why there is none."""
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


def address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve(app: FastAPI, listener: socket.socket, *, show: bool = False) -> None:
    """Answer until Ctrl-C."""
    print(f"serving on {address(listener)} (Ctrl-C ends it)", file=sys.stderr, flush=True)
    if show:
        threading.Timer(0.5, webbrowser.open, [address(listener)]).start()
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=5,
        server_header=False,
    )
    uvicorn.Server(config).run(sockets=[listener])
