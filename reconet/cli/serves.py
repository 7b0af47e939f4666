"""The verb that serves a network as a web page."""

from typing import Annotated

import typer

from reconet.cli.common import Device, Network, Precision, parse_amount
from reconet.cli.output import busy
from reconet.errors import MissingExtraError


def serve(
    run: Network,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    max_upload: Annotated[
        str, typer.Option(metavar="BYTES", help="Largest upload, e.g. 20MB.")
    ] = "20MB",
    max_pixels: Annotated[
        str, typer.Option(metavar="PIXELS", help="Largest image, e.g. 25M.")
    ] = "25M",
    queue: Annotated[
        int, typer.Option(min=0, help="Requests that may wait; more are turned away.")
    ] = 16,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    precision: Precision = "auto",
    device: Device = "auto",
) -> None:
    """A trained network as a web page and an HTTP interface, on this machine.

    Drop an image on the page, read classes and probabilities under the pointer, switch ranks of
    the attention off and on. Programs post images to /api/segment; /openapi.json describes it.

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
    from reconet.inference.predictor import Predictor

    limits = Limits(upload_bytes=upload_bytes, pixels=pixels, waiting=queue)
    with listen(host, port) as listener:  # before the network is read: a taken port is soon said
        with busy("opening the network ..."):
            # Who opens the server to other machines does not know by which names they call it.
            hosts = LOOPBACK if host in LOOPBACK else ()
            predictor = Predictor.from_run(run, device=device, precision=precision)
            app = create_app(predictor, limits, hosts=hosts)
        answer(app, listener, show=open_)
