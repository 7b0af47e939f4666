"""reconet export."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconet.cli.arguments import IMPORT, JSON, NETWORK, ROOT, option
from reconet.cli.output import MIB, bold, make_table, print_result, show_progress
from reconet.errors import RecipeError

if TYPE_CHECKING:
    from reconet.export import Attempt, Export


def export(
    network: str = NETWORK,
    format: str = option("--format onnx|openvino|torch|web", "Format of the file.", "onnx"),
    out: Path | None = option(
        "--out FILE", "By default RUN/model or <name>, with .onnx, .xml or .pt2. For web a folder."
    ),
    int8: bool = option("--int8", "Use 8 bits, calibrated with images. OpenVINO only.", False),
    calibrate: Path | None = option(
        "--calibrate DIR", "Images to calibrate with, by default training images."
    ),
    images: int | None = option("--images N", "How many to calibrate with, by default 64.", min=1),
    split: str | None = option(
        "--split NAME", "Split to score int8 on, by default that of the recipe."
    ),
    score_on: int | None = option("--score-on N", "Images to score on, by default all.", min=1),
    max_loss: float | None = option(
        "--max-loss POINTS", "Points of mIoU that int8 may cost, by default 0.5."
    ),
    root: Path | None = ROOT,
    as_json: bool = JSON,
    imports: list[str] | None = IMPORT,
) -> None:
    """Write a network as one file for other programs.

    The file takes a uint8 RGB image of any size and returns uint8 labels of that size. It includes
    normalisation, resizing and argmax. Export opens the file in its own runtime and compares it
    with the network on real images of several sizes. A difference is an error. The format web is a
    page that runs the network in a browser, without a server.

    \b
    Examples:
      reconet export runs/first --format torch
      reconet export runs/first --format openvino --int8 --calibrate photos --max-loss 1
      reconet export voc12 --format onnx
      reconet export runs/first --format web --out page
      reconet predict voc12.onnx street.jpg
    """
    given: dict[str, Any] = {
        "calibrate": calibrate,
        "images": images,
        "split": split,
        "score_on": score_on,
        "max_loss": max_loss,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if given and not int8:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise RecipeError(f"only with --int8: {names}.")
    from reconet.export import Int8
    from reconet.export import export as export_network

    with show_progress("export") as progress:
        result = export_network(
            network,
            format=format,
            out=out,
            int8=Int8(**given) if int8 else None,
            root=root,
            progress=progress,
        )
    print_result(result.as_dict(), _tables(result), as_json)


def _tables(result: "Export") -> list[Any]:
    """Return the differences to the network, the loss of int8, how to feed the file, its path."""
    rows = [
        [
            f"{d.images} x {d.size[0]} x {d.size[1]}",
            f"{d.logits:.1e}",
            f"{math.floor(1e5 * d.labels) / 1e3:.3f} %",  # 100 only if all are the same
        ]
        for d in result.differences
    ]
    columns = ["images", "largest difference of logits", "same labels"]
    parts = [
        bold(f"{result.how} against the network, on {result.images}"),
        make_table("", columns, rows),
    ]
    if result.tries:
        columns = ["kept in fp32", "mIoU % before", "after", "loss"]
        title = f"int8, calibrated by {result.calibrated_on}, scored on {result.scored_on or '-'}"
        parts.append("int8 is judged by its mIoU. The differences above have no limit.")
        parts += [bold(title), make_table("", columns, map(_attempt_row, result.tries))]
    if result.remark:
        parts.append(result.remark)
    return [*parts, result.feed, f"{result.path}: {result.bytes / MIB:.2f} MiB"]


def _attempt_row(one: "Attempt") -> list[str]:
    """Format an attempt at int8. The loss is the difference of the two rounded scores."""
    kept = ", ".join(one.kept) or "nothing"
    if one.before is None or one.after is None:
        return [kept, "-", "-", "-"]
    before, after = round(100 * one.before, 2), round(100 * one.after, 2)
    return [kept, f"{before:.2f}", f"{after:.2f}", f"{round(before - after, 2) + 0.0:.2f}"]
