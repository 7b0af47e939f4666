"""The verb about studies."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.common import Device, Json, Set, resolve
from reconet.cli.output import bar, print_result
from reconet.errors import RecipeError

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
    Variants with the same seed see the same images in the same order. The table, the figures and
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
    from reconet.cli.tables import results as tables
    from reconet.study.grid import Tell
    from reconet.study.page import markdown as as_markdown
    from reconet.study.result import as_dict
    from reconet.study.run import default_jobs, make_plan, run_study

    resolved = resolve(recipe or (QUICK if quick else FULL), settings)
    names = None if variants is None else [v.strip() for v in variants.split(",") if v.strip()]
    if names == []:
        raise RecipeError(f"--variants takes names of `--list`, such as r1,r16, got {variants!r}.")
    plan = make_plan(name, resolved, seeds=seeds, variants=names, quick=quick)
    if show:
        values = [{"name": v.name, "about": v.about, "set": v.settings} for v in plan.variants]
        print_result({"study": name, "variants": values}, [tables.variants_table(plan)], as_json)
        return
    place = out or Path("runs") / f"study-{name}{'-quick' if quick else ''}"
    try:
        with bar("steps", lines=False) as shown:  # it tells of each training in lines of its own
            tell = Tell(progress=shown.at, line=shown.line)
            result = run_study(plan, place, jobs=jobs or default_jobs(), device=device, tell=tell)
    except KeyboardInterrupt:
        print(f"stopped: {place}; the same command goes on from there", file=sys.stderr)
        raise
    if markdown:
        print(as_markdown(result))
    else:
        print_result(as_dict(result), tables.study_tables(result), as_json)
    print(f"report: {place / 'report.html'}", file=sys.stderr)
    if result.missing:
        for line in result.missing:
            print(f"reconet: {line}", file=sys.stderr)
        raise typer.Exit(1)


def _list_studies(show: bool, as_json: bool) -> None:
    """What there is to name, when nothing was named."""
    from reconet.cli.tables import results as tables
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
    print_result({"studies": values}, [tables.studies_table(STUDIES.values())], as_json)
