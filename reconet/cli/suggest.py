"""reconet suggest."""

from pathlib import Path

from reconet.cli.arguments import (
    ANY_NETWORK,
    DATA,
    DEVICE,
    IMPORT,
    JSON,
    ROOT,
    SET,
    argument,
    check_settings,
    data_settings,
    option,
)
from reconet.cli.output import bold, make_table, print_note, print_result, show_progress
from reconet.system.readable import counted

TITLES = {"label-next": "label this next", "label-again": "label this again"}


def suggest(
    network: str = ANY_NETWORK,
    images: list[str] | None = argument(
        "[IMAGE]...",
        "Images without labels: files, folders, 'globs' or @list.txt. Without any, the masks of "
        "the training images are ranked.",
        None,
    ),
    split: str | None = option(
        "--split NAME",
        "Split to rank, or to compare new images with; by default that of the training.",
    ),
    out: Path | None = option(
        "--out FILE", "Page to write, by default RUN/label-next.html or RUN/label-again.html."
    ),
    most: int = option("--most N", "Images to print and to show.", 30, min=1, max=500),
    root: Path | None = ROOT,
    changes: list[str] | None = SET,
    data_file: Path | None = DATA,
    device: str = DEVICE,
    as_json: bool = JSON,
    imports: list[str] | None = IMPORT,
) -> None:
    """Suggest images to label next, or masks to look at again.

    Images without labels are ranked by how unsure the network is, and by how different they are
    from its training images. Labelled images are ranked by how confidently the network contradicts
    their masks. The first are shown in an HTML page, with the regions marked (docs/own-data.md).

    \b
    Examples:
      reconet suggest runs/first photos              # which of these to label next
      reconet suggest runs/first --split val         # which of these masks may be wrong
      reconet suggest runs/mine --most 50 --out wrong.html
      reconet suggest runs/mine --data other.yaml --split train --json
    """
    settings = [*data_settings(data_file), *check_settings(changes)]
    from reconet import suggest as work
    from reconet.recipes import apply_overrides

    with show_progress("suggest", "opening the network ...") as progress:
        result = work.suggest(
            network,
            images or (),
            split=split,
            root=root,
            device=device,
            change=lambda recipe: apply_overrides(recipe, settings),
            most=most,
            out=out,
            progress=progress,
        )
    if result is None:  # of many processes, one has the result
        return
    rows = [[one.name, *work.describe_figures(one).values()] for one in result.images[:most]]
    columns = ["image", *work.describe_figures(result.images[0])]
    more = len(result.images) - most
    parts = [
        make_table(f"{TITLES[result.kind]}: {result.of}", columns, rows),
        *([f"and {counted(more, 'image')} more: --json lists all"] if more > 0 else []),
        f"protocol: {result.protocol}",
        bold(f"page: {result.page}"),
    ]
    print_result(result.as_dict(), parts, as_json)
    for note in result.notes:
        print_note(note)
