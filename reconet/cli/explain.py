"""reconet explain."""

from pathlib import Path

from reconet.cli.arguments import DEVICE, IMPORT, JSON, NETWORK, ROOT, argument, option
from reconet.cli.output import print_result, show_progress


def explain(
    network: str = NETWORK,
    image: str = argument(
        "IMAGE", "A file, or SPLIT:NUMBER or SPLIT:NAME of the network's dataset."
    ),
    ranks: str | None = option(
        "--ranks N|I,J,...",
        "How many ranks of largest lambda, by default 4. Or which: 3,17, or 7, (with a comma) for "
        "rank 7 alone.",
    ),
    point: str | None = option(
        "--point X,Y",
        "For other contexts: where to look from, as fractions of width and height.",
    ),
    out: Path | None = option(
        "--out DIR", "Folder to write, by default RUN/explain/<image>, or explain-<name>/<image>."
    ),
    root: Path | None = ROOT,
    device: str = DEVICE,
    as_json: bool = JSON,
    imports: list[str] | None = IMPORT,
) -> None:
    """Show what a network looks at in an image.

    Writes attention maps, fragments, the effect of each rank, and explain.html with all of them.
    Networks with a context without ranks show the attention that they have.

    \b
    Examples:
      reconet explain runs/first val:3
      reconet explain runs/first street.jpg --ranks 2,5 --out street
      reconet explain runs/first street.jpg --ranks 7,
      reconet explain runs/danet street.jpg --point 0.25,0.6
    """
    from reconet.explain import PAGE, explain_image, parse_point

    at = None if point is None else parse_point(point)
    with show_progress("explain", "looking into the network ...") as progress:
        result = explain_image(
            network,
            image,
            ranks=ranks,
            point=at,
            out=out,
            root=root,
            device=device,
            progress=progress,
        )
    values = {"directory": str(result.directory)} | result.values
    print_result(values, [*result.findings, str(result.directory / PAGE)], as_json)
