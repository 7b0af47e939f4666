"""Verbs that hand a trained network on: to other programs, and to other people."""

from pathlib import Path
from typing import Annotated, Any

import typer

from reconet.cli.common import Json, Root, Run
from reconet.cli.output import bar, note, print_result
from reconet.errors import RecipeError


def export(
    run: Run,
    format: Annotated[
        str, typer.Option("--format", metavar="onnx|openvino|torch", help="What to write.")
    ] = "onnx",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="By default RUN/model.onnx, .xml or .pt2.")
    ] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="In 8 bits, calibrated by images; OpenVINO only.")
    ] = False,
    calibrate: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Images to calibrate by; else the training split's."),
    ] = None,
    images: Annotated[
        int | None, typer.Option(min=1, help="How many to calibrate by; by default 64.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Split to score int8 on; by default the recipe's.")
    ] = None,
    score_on: Annotated[
        int | None, typer.Option(min=1, help="Images of it to score on; by default all.")
    ] = None,
    max_loss: Annotated[
        float | None, typer.Option(help="Points of mIoU that int8 may cost; by default 0.5.")
    ] = None,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Write a network as one file for other programs, and check that it computes the same.

    A uint8 RGB image of any size goes in, uint8 labels of that size come out: normalisation,
    resizing and argmax are inside. The file is opened by its own runtime and compared with the
    network on real images of several sizes; if they disagree, that is an error.

    \b
    Examples:
      reconet export runs/voc --format onnx
      reconet export runs/voc --format openvino --int8
      reconet export runs/voc --format openvino --int8 --calibrate photos --max-loss 1
      reconet predict runs/voc/model.onnx street.jpg
    """
    given: dict[str, Any] = {
        "calibrate": calibrate,
        "images": images,
        "split": split,
        "score_on": score_on,
        "max_loss": max_loss,
    }
    options = {name: value for name, value in given.items() if value is not None}
    if options and not int8:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in options)
        raise RecipeError(f"only with --int8: {names}.")
    from reconet.cli.tables import results as tables
    from reconet.export import Int8
    from reconet.export import export as export_network

    with bar("score") as shown:
        result = export_network(
            run,
            format=format,
            out=out,
            int8=Int8(**options) if int8 else None,
            root=root,
            tell=shown.line,
            progress=shown.count,
        )
    print_result(result.as_dict(), tables.export_tables(result), as_json)


def share(
    run: Run,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write.")],
    licence: Annotated[
        str | None, typer.Option(metavar="ID", help="Of the weights, such as apache-2.0 or mit.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Title of the model card.")] = None,
    push: Annotated[
        str | None, typer.Option(metavar="OWNER/NAME", help="Also upload it to the hub.")
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="Where --push makes a new place, a private one.")
    ] = False,
) -> None:
    """Put a trained network into a folder that others can use, with a model card about it.

    The card says how it was trained, what it scores, what it costs, and shows images. Others open
    the folder, or the hub's copy of it, with Predictor.from_pretrained.

    \b
    Examples:
      reconet share runs/voc --out shared/voc --licence apache-2.0
      reconet share runs/voc --out shared/voc --push somebody/reconet-voc
    """
    from reconet.export.share import check_hub_id, push_folder, write_folder

    if push is not None:
        check_hub_id(push)
    folder = write_folder(run, out, licence=licence, name=name)
    if licence is None:
        note(
            "no licence is stated, so others may look but not use it; "
            "--licence apache-2.0, for one, says what they may."
        )
    print(folder)
    if push is not None:
        print(push_folder(folder, push, private=private))
