"""reconet serve."""

from reconet.cli.arguments import (
    ANY_NETWORK,
    DEVICE,
    FAST,
    IMPORT,
    PRECISION,
    option,
    parse_amount,
)
from reconet.cli.output import show_progress


def serve(
    network: str = ANY_NETWORK,
    host: str = option(
        "--host ADDRESS", "Address to listen on. 0.0.0.0 lets other machines in.", "127.0.0.1"
    ),
    port: int = option("--port N", "Port. 0 takes a free one.", 8000, min=0, max=65535),
    max_upload: str = option("--max-upload BYTES", "Largest upload, e.g. 20MB.", "20MB"),
    max_pixels: str = option("--max-pixels PIXELS", "Largest image, e.g. 25M.", "25M"),
    queue: int = option("--queue N", "Requests that may wait. More are refused.", 16, min=0),
    open_: bool = option("--open", "Open the page in a browser.", False),
    precision: str | None = PRECISION,
    fast: bool = FAST,
    device: str = DEVICE,
    imports: list[str] | None = IMPORT,
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
