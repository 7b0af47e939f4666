"""reconet serve."""

from typing import Annotated

import typer

from reconet.cli.arguments import (
    AnyNetworkArgument,
    DeviceOption,
    FastOption,
    ImportOption,
    PrecisionOption,
    parse_amount,
)
from reconet.cli.output import show_progress

HostOption = Annotated[
    str,
    typer.Option(
        "--host", metavar="ADDRESS", help="Address to listen on. 0.0.0.0 lets other machines in."
    ),
]
PortOption = Annotated[
    int,
    typer.Option("--port", metavar="N", min=0, max=65535, help="Port. 0 takes a free one."),
]
MaxUploadOption = Annotated[
    str, typer.Option("--max-upload", metavar="BYTES", help="Largest upload, e.g. 20MB.")
]
MaxPixelsOption = Annotated[
    str, typer.Option("--max-pixels", metavar="PIXELS", help="Largest image, e.g. 25M.")
]
QueueOption = Annotated[
    int,
    typer.Option("--queue", metavar="N", min=0, help="Requests that may wait. More are refused."),
]
OpenOption = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]


def serve(
    network: AnyNetworkArgument,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8000,
    max_upload: MaxUploadOption = "20MB",
    max_pixels: MaxPixelsOption = "25M",
    queue: QueueOption = 16,
    open_: OpenOption = False,
    precision: PrecisionOption = None,
    fast: FastOption = False,
    device: DeviceOption = "auto",
    imports: ImportOption = None,
) -> None:
    """Serve a network as a web page and an HTTP interface.

    Drop an image on the page, read classes and probabilities under the pointer, switch ranks of
    the attention off and on. Programs post images to /api/segment. /openapi.json describes it.

    \b
    Examples:
      reconet serve runs/first --fast
      reconet serve voc12 --port 9000 --max-pixels 50M --open
      curl --data-binary @street.jpg -H 'Content-Type: image/jpeg' http://127.0.0.1:8000/api/segment
    """
    upload_bytes = parse_amount(max_upload, "--max-upload")
    pixels = parse_amount(max_pixels, "--max-pixels")
    from reconet.serve import Limits, open_server

    limits = Limits(upload_bytes=upload_bytes, pixels=pixels, waiting=queue)
    with show_progress("serve", "opening the network ...") as progress:
        server = open_server(
            network,
            host=host,
            port=port,
            limits=limits,
            device=device,
            precision=precision,
            fast=fast,
            progress=progress,
        )
    server.run(open_browser=open_)
