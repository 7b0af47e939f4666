"""reconet bench evaluate."""

from dataclasses import asdict
from typing import Annotated

import typer

from reconet.cli.arguments import BackboneOption, ImportOption, JsonOption, RoundsOption
from reconet.cli.output import print_result, show_progress

CropOption = Annotated[
    int, typer.Option("--crop", metavar="N", min=8, help="Height and width of a window.")
]

ClassesOption = Annotated[
    list[int] | None,
    typer.Option("--classes", metavar="N", min=14, help="Number of classes. May be repeated."),
]


def evaluate(
    backbone: BackboneOption = "resnet18",
    crop: CropOption = 160,
    classes: ClassesOption = None,
    rounds: RoundsOption = 3,
    as_json: JsonOption = False,
    imports: ImportOption = None,
) -> None:
    """Compare multi-scale evaluation with a plain loop over windows.

    The plain loop runs one window at a time in eager fp32. Both see generated images as wide as a
    window, at six scales and mirrored, by default with 21 and with 150 classes. The scores of both
    are shown.

    \b
    Examples:
      reconet bench evaluate
      reconet bench evaluate --backbone resnet50 --crop 256 --classes 21 --rounds 1 --json
    """
    from reconet.bench.evaluate import bench_evaluate
    from reconet.cli.tables.bench import evaluate_table

    with show_progress("bench", "measuring, takes a minute or two ..."):
        results = bench_evaluate(
            backbone=backbone, crop=crop, rounds=rounds, classes=tuple(classes or (21, 150))
        )
    values = {"networks": [asdict(result) for result in results]}
    title = f"Multi-scale evaluation, {backbone}, crop {crop}"
    print_result(values, [evaluate_table(title, results)], as_json)
