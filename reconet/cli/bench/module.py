"""reconet bench module."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.arguments import (
    ContextOption,
    ImportOption,
    JsonOption,
    RoundsOption,
    SizeOption,
    parse_size,
)
from reconet.cli.output import print_result, show_progress

RankOption = Annotated[
    int, typer.Option("--rank", metavar="N", min=1, help="Rank of the reconstruction.")
]
ChannelsOption = Annotated[
    int, typer.Option("--channels", metavar="N", min=8, help="Channels of the feature map.")
]
PlotOption = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw time against memory.")
]

AgainstOption = Annotated[
    list[str] | None,
    typer.Option(
        "--against",
        metavar="FILE.py:CLASS",
        help="Measure a module of yours too: a class or function that is called with the number of "
        "channels. May be repeated.",
    ),
]


def module(
    rank: RankOption = 64,
    channels: ChannelsOption = 512,
    size: SizeOption = "64x64",
    rounds: RoundsOption = 15,
    context: ContextOption = None,
    against: AgainstOption = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
    imports: ImportOption = None,
) -> None:
    """Compare the cores of all contexts on one feature map.

    Use --context to choose some. RecoNet's core (TGM + TRM) is measured twice: as one product per
    axis, and as the published loop over ranks. Times are medians over rounds in which all cores
    take turns. Memory is counted in units of the input map: the most that is alive at once, beside
    the input, the weights and their gradients.

    \b
    Examples:
      reconet bench module
      reconet bench module --context nonlocal --context emanet --plot cores.png
      reconet bench module --rank 16 --size 64x128 --json
      reconet bench module --context danet --against mine.py:PositionAttention
    """
    from reconet.bench.modules import bench_module, smaller_than_reconet
    from reconet.cli.tables.bench import module_table

    height, width = parse_size(size)
    with show_progress("bench", "measuring, takes some minutes ..."):
        results = bench_module(
            channels=channels,
            size=(height, width),
            rank=rank,
            repeats=rounds,
            only=context,
            against=against or (),
        )
    fast, loop = results[:2]
    remarks = smaller_than_reconet(results)
    title = f"One {channels} x {height} x {width} map, rank {rank}"
    values = {
        "map": [channels, height, width],
        "rank": rank,
        "cores": [asdict(result) for result in results],
        "forward_speedup": loop.forward_ms / fast.forward_ms,
        "forward_backward_speedup": loop.forward_backward_ms / fast.forward_backward_ms,
        "smaller_than_reconet": remarks,
    }
    if plot is not None:
        from reconet.bench.plot import plot_module

        plot_module(results, title, plot)
    print_result(values, [module_table(title, results, remarks)], as_json)
