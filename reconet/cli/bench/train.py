"""reconet bench train."""

from dataclasses import asdict
from typing import Annotated

import typer

from reconet.cli.arguments import BackboneOption, DeviceOption, ImportOption, JsonOption
from reconet.cli.output import print_result, show_progress
from reconet.system.readable import counted

SizeOption = Annotated[
    int, typer.Option("--size", metavar="N", min=33, help="Height and width of the images.")
]
BatchOption = Annotated[
    int | None,
    typer.Option("--batch", metavar="N", min=1, help="Images in a step: 2, or 16 with --frozen."),
]
FrozenOption = Annotated[
    bool,
    typer.Option("--frozen", help="Compare a head on cached features with the whole network."),
]
StepsOption = Annotated[
    int,
    typer.Option("--steps", metavar="N", min=1, help="Measured steps, of which the median counts."),
]


def train(
    backbone: BackboneOption = "resnet50",
    size: SizeOption = 256,
    batch: BatchOption = None,
    steps: StepsOption = 8,
    frozen: FrozenOption = False,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
    imports: ImportOption = None,
) -> None:
    """Compare training steps in fp32 with other ways, or with a cache.

    The ways are bf16, channels last, and freed memory that goes back to the system instead of
    to the next step. All take turns, and the losses of all are shown.

    --frozen trains the network of voc12/frozen_r50, with random weights: as a whole, and the head
    alone on cached features. It also shows what the cache costs, and when it has paid.

    \b
    Examples:
      reconet bench train
      reconet bench train --backbone resnet18 --batch 8 --json
      reconet bench train --frozen
    """
    if frozen:
        _compare_frozen(backbone, size, batch or 16, steps, device, as_json)
        return
    from reconet.bench.train import bench_train
    from reconet.cli.tables.bench import train_table

    batch = batch or 2
    with show_progress("bench", "measuring, takes some minutes ..."):
        results = bench_train(backbone=backbone, size=size, batch=batch, steps=steps, device=device)
    title = f"RecoNet, {backbone}, {counted(batch, 'image')} of {size} x {size} a step"
    values = {"modes": [asdict(result) for result in results]}
    print_result(values, [train_table(title, results)], as_json)


def _compare_frozen(
    backbone: str, size: int, batch: int, steps: int, device: str, as_json: bool
) -> None:
    from reconet.bench.frozen import bench_frozen
    from reconet.cli.tables.bench import frozen_table

    with show_progress("bench", "measuring, takes some minutes ..."):
        result = bench_frozen(backbone=backbone, size=size, batch=batch, steps=steps, device=device)
    title = f"{backbone}, output stride 16, {counted(batch, 'image')} of {size} x {size} a step"
    print_result(asdict(result), [frozen_table(title, result)], as_json)
