"""reconet bench all."""

from typing import Annotated

import typer

from reconet.cli.arguments import JsonOption
from reconet.cli.output import print_result, show_progress

RunsOption = Annotated[
    int, typer.Option("--runs", metavar="N", min=1, help="Runs, of which the smallest counts.")
]


def all_figures(runs: RunsOption = 3, as_json: JsonOption = False) -> None:
    """Measure every figure of speed that the docs quote.

    The commands of the other benchmarks run in turns, each in a process of its own. A figure is a
    ratio within one run. The smallest of all runs is the one to quote. It takes about half an hour
    on two cores that have nothing else to do.

    \b
    Examples:
      reconet bench all
      reconet bench all --runs 1 --json
    """
    import torch

    from reconet.bench.summary import bench_all
    from reconet.cli.tables.bench import summary_table
    from reconet.system.hardware import environment

    with show_progress("bench", "measuring, takes about half an hour ...") as progress:
        results = bench_all(runs=runs, progress=progress)
    machine = dict(environment(torch.device("cpu")))
    figures = [{**vars(result), "smallest": result.smallest} for result in results]
    values = {"machine": machine, "runs": runs, "figures": figures}
    print_result(values, [summary_table(runs, machine, results)], as_json)
