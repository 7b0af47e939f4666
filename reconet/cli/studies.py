"""The verb about studies."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconet.cli.common import Device, Json, Set, report, resolve
from reconet.errors import RecipeError

if TYPE_CHECKING:
    from reconet.study.grid import Tell

FULL, QUICK = "scenes/study", "scenes/study_quick"


def study(
    name: Annotated[
        str | None,
        typer.Argument(metavar="STUDY", help="components, rank, contexts or attention."),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(metavar="RECIPE", help=f"What to vary; by default {FULL}, a night."),
    ] = None,
    settings: Set = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Trainings of each variant; by default 1 to 5.")
    ] = None,
    variants: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Only these; --list shows them.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to; by default runs/study-<study>[-quick].")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"A coffee break: {QUICK}, fewer variants and seeds.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Trainings side by side; by default one per core or GPU."),
    ] = None,
    show: Annotated[
        bool, typer.Option("--list", help="Show the studies, or the variants of one, and stop.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown instead of a table.")
    ] = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Train variants of a recipe with several seeds, and compare them with 95 % intervals.

    Finished trainings are not run again: after Ctrl-C or a crash the same command goes on.
    Variants with the same seed see the same pictures in the same order. The table, the figures and
    report.html are in the --out directory.

    \b
    Examples:
      reconet study components --quick                    minutes on two cores
      reconet study attention --seeds 5                   a night on two cores
      reconet study rank --variants r1,r16,r64 --out runs/ranks
      reconet study contexts --recipe voc12/reconet_r101 --set data.root=/data/voc
      reconet study --list                                the studies
      reconet study components --list                     its variants and their settings
    """
    if markdown and as_json:
        raise RecipeError("--markdown and --json exclude each other.")
    if name is None:
        _list_studies(show, as_json)
        return
    from reconet import tables
    from reconet.study.page import markdown as as_markdown
    from reconet.study.result import as_dict
    from reconet.study.run import default_jobs, make_plan, run_study

    resolved = resolve(recipe or (QUICK if quick else FULL), settings)
    names = None if variants is None else [part.strip() for part in variants.split(",") if part]
    plan = make_plan(name, resolved, seeds=seeds, variants=names, quick=quick)
    if show:
        values = [{"name": v.name, "about": v.about, "set": v.settings} for v in plan.variants]
        report({"study": name, "variants": values}, [tables.variants_table(plan)], as_json)
        return
    place = out or Path("runs") / f"study-{name}{'-quick' if quick else ''}"
    try:
        with _telling() as tell:
            result = run_study(plan, place, jobs=jobs or default_jobs(), device=device, tell=tell)
    except KeyboardInterrupt:
        print(f"stopped: {place}; the same command goes on from there", file=sys.stderr)
        raise
    if markdown:
        print(as_markdown(result))
    else:
        report(as_dict(result), tables.study_tables(result), as_json)
    print(f"report: {place / 'report.html'}", file=sys.stderr)
    if result.missing:
        for line in result.missing:
            print(f"reconet: {line}", file=sys.stderr)
        raise typer.Exit(1)


def _list_studies(show: bool, as_json: bool) -> None:
    """What there is to name, when nothing was named."""
    from reconet import tables
    from reconet.study.grids import STUDIES

    if not show:
        raise RecipeError(f"name a study: {', '.join(STUDIES)}; `reconet study --list` tells more.")
    values = [
        {
            "name": study.name,
            "question": study.question,
            "baseline": study.baseline,
            "variants": [variant.name for variant in study.variants()],
            "seeds": study.seeds,
        }
        for study in STUDIES.values()
    ]
    report({"studies": values}, [tables.studies_table(STUDIES.values())], as_json)


@contextmanager
def _telling() -> Iterator["Tell"]:
    """A bar over the whole grid with the time left, or lines where there is no terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from reconet.study.grid import Tell

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    bar = Progress(
        TextColumn("steps {task.completed} of {task.total}"),
        BarColumn(bar_width=None),
        TimeElapsedColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
        speed_estimate_period=600,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task("study", total=None)
        progress: Callable[[int, int], None] = lambda done, total: bar.update(  # noqa: E731
            task, completed=done, total=total
        )
        yield Tell(progress=progress, line=lambda text: console.print(text, markup=False))
