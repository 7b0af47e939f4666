"""reconet export."""

from pathlib import Path
from typing import Annotated, Any

import typer

from reconet.cli.arguments import ImportOption, JsonOption, NetworkArgument, RootOption
from reconet.cli.output import print_result, show_progress
from reconet.errors import RecipeError

FormatOption = Annotated[
    str, typer.Option("--format", metavar="onnx|openvino|torch", help="Format of the file.")
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="By default RUN/model or <name>, with .onnx, .xml or .pt2."
    ),
]
Int8Option = Annotated[
    bool, typer.Option("--int8", help="Use 8 bits, calibrated with images. OpenVINO only.")
]
CalibrateOption = Annotated[
    Path | None,
    typer.Option(
        "--calibrate", metavar="DIR", help="Images to calibrate with, by default training images."
    ),
]
ImagesOption = Annotated[
    int | None,
    typer.Option("--images", metavar="N", min=1, help="How many to calibrate with, by default 64."),
]
SplitOption = Annotated[
    str | None,
    typer.Option(
        "--split", metavar="NAME", help="Split to score int8 on, by default that of the recipe."
    ),
]
ScoreOnOption = Annotated[
    int | None,
    typer.Option("--score-on", metavar="N", min=1, help="Images to score on, by default all."),
]
MaxLossOption = Annotated[
    float | None,
    typer.Option(
        "--max-loss", metavar="POINTS", help="Points of mIoU that int8 may cost, by default 0.5."
    ),
]


def export(
    network: NetworkArgument,
    format: FormatOption = "onnx",
    out: OutOption = None,
    int8: Int8Option = False,
    calibrate: CalibrateOption = None,
    images: ImagesOption = None,
    split: SplitOption = None,
    score_on: ScoreOnOption = None,
    max_loss: MaxLossOption = None,
    root: RootOption = None,
    as_json: JsonOption = False,
    imports: ImportOption = None,
) -> None:
    """Write a network as one file for other programs.

    The file takes a uint8 RGB image of any size and returns uint8 labels of that size. It includes
    normalisation, resizing and argmax. Export opens the file in its own runtime and compares it
    with the network on real images of several sizes. A difference is an error.

    \b
    Examples:
      reconet export runs/first --format torch
      reconet export runs/first --format openvino --int8 --calibrate photos --max-loss 1
      reconet export voc12 --format onnx
      reconet predict voc12.onnx street.jpg
    """
    options = _int8_options(
        int8,
        calibrate=calibrate,
        images=images,
        split=split,
        score_on=score_on,
        max_loss=max_loss,
    )
    from reconet.cli.tables.export import export_tables
    from reconet.export import Int8
    from reconet.export import export as export_network

    with show_progress("export") as progress:
        result = export_network(
            network,
            format=format,
            out=out,
            int8=Int8(**options) if int8 else None,
            root=root,
            progress=progress,
        )
    print_result(result.as_dict(), export_tables(result), as_json)


def _int8_options(int8: bool, **given: Any) -> dict[str, Any]:
    """Return the options that were given. Without --int8 there must be none."""
    options = {name: value for name, value in given.items() if value is not None}
    if options and not int8:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in options)
        raise RecipeError(f"only with --int8: {names}.")
    return options
