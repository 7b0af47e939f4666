"""reconet bench train."""

from dataclasses import asdict
from typing import Annotated

import typer

from reconet.cli.arguments import BackboneOption, DeviceOption, JsonOption
from reconet.cli.output import print_result, show_progress

SizeOption = Annotated[
    int, typer.Option("--size", metavar="N", min=33, help="Height and width of the images.")
]
BatchOption = Annotated[int, typer.Option("--batch", metavar="N", min=1, help="Images in a step.")]
StepsOption = Annotated[
    int,
    typer.Option("--steps", metavar="N", min=1, help="Measured steps, of which the median counts."),
]


def train(
    backbone: BackboneOption = "resnet50",
    size: SizeOption = 256,
    batch: BatchOption = 2,
    steps: StepsOption = 8,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Compare training steps in fp32 and bf16.

    bf16 uses channels last. Both take turns, and the losses of both are shown.

    \b
    Examples:
      reconet bench train
      reconet bench train --backbone resnet18 --batch 8 --json
    """
    from reconet.bench.train import bench_train
    from reconet.cli.tables.bench import train_table

    with show_progress("bench", "measuring, takes some minutes ..."):
        results = bench_train(backbone=backbone, size=size, batch=batch, steps=steps, device=device)
    title = f"RecoNet, {backbone}, {batch} images of {size} x {size} a step"
    values = {"modes": [asdict(result) for result in results]}
    print_result(values, [train_table(title, results)], as_json)
