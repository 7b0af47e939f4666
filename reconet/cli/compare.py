"""reconet compare."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from reconet.cli.arguments import (
    DATA,
    DEVICE,
    FLIP,
    IMPORT,
    JSON,
    MODE,
    RELATIVE_TO,
    ROOT,
    SCALES,
    SET,
    argument,
    check_settings,
    data_settings,
    eval_settings,
    option,
)
from reconet.cli.output import bold, make_table, print_note, print_result, show_progress
from reconet.system.readable import counted, split_name

if TYPE_CHECKING:
    from rich.console import RenderableType

    from reconet.evaluation import Comparison, Difference


def compare(
    networks: list[str] = argument(
        "NETWORK", "Two or more: run directories, files, exports, or names of `reconet zoo`."
    ),
    split: str | None = option("--split NAME", "Split, by default that of the first recipe."),
    out: Path | None = option("--out FILE", "Also write a page, such as compared.html."),
    scales: str | None = SCALES,
    flip: bool | None = FLIP,
    mode: str | None = MODE,
    relative_to: str | None = RELATIVE_TO,
    root: Path | None = ROOT,
    changes: list[str] | None = SET,
    data_file: Path | None = DATA,
    device: str = DEVICE,
    as_json: bool = JSON,
    imports: list[str] | None = IMPORT,
) -> None:
    """Compare networks on the same images, with intervals.

    The images are those of the first network's dataset. Each other network is compared with the
    first: the difference in mIoU and in each class, with 95 % intervals, whether it is more than
    chance, and the images that differ most. What `reconet evaluate` has counted for a run is not
    counted again.

    \b
    Examples:
      reconet compare runs/first runs/second
      reconet compare runs/reconet runs/fcn runs/danet --out compared.html
      reconet compare runs/voc runs/voc-rank16 --split val --flip --json
    """
    settings = [
        *data_settings(data_file),
        *check_settings(changes),
        *eval_settings(scales, flip, mode, relative_to),
    ]
    from reconet import evaluation
    from reconet.recipes import apply_overrides
    from reconet.report import check_page, write_comparison

    if out is not None:
        check_page(out, "comparison")
    with show_progress("compare") as progress:
        result = evaluation.compare(
            networks,
            split=split,
            root=root,
            device=device,
            change=lambda recipe: apply_overrides(recipe, settings),
            progress=progress,
        )
    if out is not None:
        write_comparison(result, out, shlex.join(["reconet", *sys.argv[1:]]))
        print_note(f"the page is {out}")
    print_result(result.as_dict(), _tables(result), as_json)


def _tables(result: "Comparison") -> "list[RenderableType]":
    """Return the scores, then for each network how it differs from the first."""
    from reconet.report import comparison_protocols, comparison_scores

    first = result.scores[0]
    title = split_name(first.dataset, first.split, first.title)
    title += f", {counted(first.images, 'image')}"
    head, rows = comparison_scores(result)
    parts: list[RenderableType] = [make_table(title, head, rows), *comparison_protocols(result)]
    for one in result.differences:
        parts += _difference(one, result)
    return parts


def _difference(one: "Difference", result: "Comparison") -> "list[RenderableType]":
    from reconet.evaluation import rough
    from reconet.report import class_differences, image_differences

    head, rows = class_differences(one, result)
    title, star = f"IoU: {one.after} minus {one.before}", "*: zero is not in the interval"
    parts: list[RenderableType] = [make_table(title, head, rows, caption=star)]
    head, rows = image_differences(one)
    if rows:
        parts.append(make_table("Images that differ most: pixels that are right", head, rows))
    for name, gap in (("mIoU", one.miou), ("boundary IoU", one.boundary_iou)):
        parts.append(f"{name}, {one.after} minus {one.before}, points: {gap.points}")
    parts.append(bold(f"{one.verdict}."))
    return [*parts, *rough(result.scores[0].images)]
