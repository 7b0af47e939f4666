"""The verb that serves a network as a web page."""

import re
from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.common import Device, busy
from reconet.errors import MissingExtraError, RecipeError

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


def serve(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run directory, or a file of a network.")
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    max_upload: Annotated[
        str, typer.Option(metavar="BYTES", help="Largest upload, e.g. 20MB.")
    ] = "20MB",
    max_pixels: Annotated[
        str, typer.Option(metavar="PIXELS", help="Largest picture, e.g. 25M.")
    ] = "25M",
    queue: Annotated[
        int, typer.Option(min=0, help="Requests that may wait; more are turned away.")
    ] = 16,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    device: Device = "auto",
) -> None:
    """A trained network as a web page and an HTTP interface, on this machine.

    Drop a picture on the page, read classes and probabilities under the pointer, switch ranks of
    the attention off and on. Programs post pictures to /api/segment; /openapi.json describes it.

    \b
    Examples:
      reconet serve runs/first
      reconet serve runs/voc --port 9000 --max-pixels 50M --open
      curl --data-binary @street.jpg -H 'Content-Type: image/jpeg' http://127.0.0.1:8000/api/segment
    """
    upload_bytes = parse_amount(max_upload, "--max-upload")
    pixels = parse_amount(max_pixels, "--max-pixels")
    try:
        from reconet.serve.app import create_app
        from reconet.serve.guard import LOOPBACK
        from reconet.serve.server import listen
        from reconet.serve.server import serve as answer
        from reconet.serve.uploads import Limits
    except ModuleNotFoundError as error:
        raise MissingExtraError("serve", "reconet serve") from error
    from reconet.predict import Predictor

    limits = Limits(upload_bytes=upload_bytes, pixels=pixels, waiting=queue)
    with listen(host, port) as listener:  # before the network is read: a taken port is soon said
        with busy("opening the network ..."):
            # Who opens the server to other machines does not know by which names they call it.
            hosts = LOOPBACK if host in LOOPBACK else ()
            app = create_app(Predictor.from_run(run, device=device), limits, hosts=hosts)
        answer(app, listener, show=open_)


def parse_amount(text: str, option: str) -> int:
    """20MB, 25M, 1.5g or a plain number."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?)b?", text.strip().lower())
    amount = int(float(match[1]) * UNITS[match[2]]) if match else 0
    if amount < 1:
        raise RecipeError(f"{option} takes an amount such as 20MB or 500000, got {text!r}.")
    return amount
