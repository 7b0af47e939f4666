"""reconet study."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconet.cli.arguments import (
    DataOption,
    DeviceOption,
    ImportOption,
    JsonOption,
    SetOption,
    resolve_recipe,
)
from reconet.cli.output import print_line, print_result, show_progress
from reconet.errors import RecipeError

if TYPE_CHECKING:
    from reconet.study import StudyPlan, StudyResult

MOST_SEEDS = 1000
FULL, QUICK = "scenes/study", "scenes/study_quick"

StudyArgument = Annotated[
    str | None,
    typer.Argument(metavar="STUDY", help="components, rank, contexts, attention or project."),
]
RecipeOption = Annotated[
    str | None,
    typer.Option(
        "--recipe", metavar="RECIPE", help=f"Recipe to vary, by default {FULL} (a night)."
    ),
]
SeedsOption = Annotated[
    str | None,
    typer.Option(
        "--seeds",
        metavar="N|LIST",
        help="Trainings per variant (5), or which seeds (0,1,2 or 3-7); by default 1 to 5.",
    ),
]
BaselineOption = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        metavar="NAME",
        help="Variant to compare the others with; by default the study's own, or else the first.",
    ),
]
KeepOption = Annotated[
    bool,
    typer.Option(
        "--keep-networks",
        help="Keep the networks of frozen recipes, which are deleted once they are scored.",
    ),
]
VariantsOption = Annotated[
    str | None,
    typer.Option("--variants", metavar="A,B,...", help="Only these variants of --list."),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Folder to write, by default runs/study-<study>[-quick]."
    ),
]
AddOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--add",
        metavar="FILE",
        help="results.json of the same study from elsewhere: its trainings are not run again.",
    ),
]
QuickOption = Annotated[
    bool,
    typer.Option("--quick", help=f"Minutes, not hours: {QUICK}, fewer variants and seeds."),
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs", metavar="N", min=1, help="Trainings side by side, by default one per core or GPU."
    ),
]
ListOption = Annotated[
    bool, typer.Option("--list", help="List the studies, or the variants of one, and exit.")
]
MarkdownOption = Annotated[
    bool, typer.Option("--markdown", help="Print Markdown instead of a table.")
]


def study(
    name: StudyArgument = None,
    recipe: RecipeOption = None,
    settings: SetOption = None,
    data_file: DataOption = None,
    seeds: SeedsOption = None,
    variants: VariantsOption = None,
    baseline: BaselineOption = None,
    out: OutOption = None,
    added: AddOption = None,
    quick: QuickOption = False,
    jobs: JobsOption = None,
    keep_networks: KeepOption = False,
    list_only: ListOption = False,
    markdown: MarkdownOption = False,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
    imports: ImportOption = None,
) -> None:
    """Train variants of a recipe with several seeds, and compare them.

    Differences have 95 % intervals, from one spread of scores that all variants share. Variants
    with the same seed see the same images in the same order. Run the command again to resume:
    finished trainings are kept. The --out folder has the table, the figures, report.html and
    results.json. To share the work among machines, run other seeds on each, and add their
    results.json by --add. With a recipe on cached features (data.views) these are computed first,
    once for all trainings. With --set train.init_from=DIR of another study each training starts
    from the network of the same variant and seed there.

    \b
    Examples:
      reconet study --list
      reconet study components --quick
      reconet study rank --variants r1,r16,r64 --seeds 5 --out runs/ranks
      reconet study contexts --recipe voc12/frozen_r50 --set data.root=/data/voc --seeds 0,1,2
      reconet study components --quick --seeds 0-5 --add elsewhere/results.json
    """
    if markdown and as_json:
        raise RecipeError("--markdown and --json exclude each other.")
    if name is None:
        _list_studies(list_only, as_json)
        return
    from reconet.study import add_results, default_jobs, make_plan, prepare_study, run_study

    resolved = resolve_recipe(recipe or (QUICK if quick else FULL), settings, data_file)
    plan = make_plan(
        name,
        resolved,
        seeds=_parse_seeds(seeds),
        variants=_parse_variants(variants),
        quick=quick,
        baseline=baseline,
    )
    if list_only:
        _list_variants(plan, as_json)
        return
    folder = out or Path("runs") / f"study-{name}{'-quick' if quick else ''}"
    for file in added or []:
        add_results(file, folder, plan.study, plan.recipe)
    try:
        with show_progress("features") as progress:
            prepare_study(plan, folder, device=device, progress=progress)
        # No lines about progress: the study prints a line about each training.
        with show_progress("steps", lines=False) as progress:
            result = run_study(
                plan,
                folder,
                jobs=jobs or default_jobs(),
                device=device,
                progress=progress,
                keep_networks=keep_networks,
            )
    except KeyboardInterrupt:
        print_line(f"stopped: {folder}; run the same command again to resume", err=True)
        raise
    _print_study(result, markdown, as_json)
    print_line(f"report: {folder / 'report.html'}", err=True)
    for line in result.missing:
        print_line(f"reconet: {line}", err=True)
    if result.missing:
        raise typer.Exit(1)


def _print_study(result: "StudyResult", markdown: bool, as_json: bool) -> None:
    from reconet.cli.tables.study import study_tables
    from reconet.study.page import render_markdown

    if markdown:
        print_line(render_markdown(result))
    else:
        print_result(result.as_dict(), study_tables(result), as_json)


def _parse_seeds(text: str | None) -> int | list[int] | None:
    """Read 5 as a number of seeds, and 0,1,2 or 3-7 or 0,3-5 as the seeds themselves."""
    if text is None:
        return None
    wrong = RecipeError(
        f"--seeds takes a number of seeds (5), a list (0,1,2) or a range (3-7), got {text!r}."
    )
    seeds: dict[int, None] = {}
    for part in text.split(","):
        ends = [end.strip() for end in part.split("-")]
        if len(ends) > 2 or not all(end.isascii() and end.isdecimal() for end in ends):
            raise wrong
        first, last = int(ends[0]), int(ends[-1])
        if last < first or last - first >= MOST_SEEDS:
            raise wrong
        seeds |= dict.fromkeys(range(first, last + 1))
    if text.strip().isdecimal():
        if not 1 <= int(text) <= MOST_SEEDS:
            raise wrong
        return int(text)
    return list(seeds)


def _parse_variants(text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise RecipeError(f"--variants takes names of `--list`, such as r1,r16, got {text!r}.")
    return names


def _list_variants(plan: "StudyPlan", as_json: bool) -> None:
    from reconet.cli.tables.study import variants_table

    values = [
        {"name": v.name, "about": v.about, "set": v.settings_on(plan.recipe)} for v in plan.variants
    ]
    values_of_study = {"study": plan.study.name, "variants": values}
    print_result(values_of_study, [variants_table(plan)], as_json)


def _list_studies(wanted: bool, as_json: bool) -> None:
    from reconet.cli.tables.study import studies_table
    from reconet.study import STUDIES

    if not wanted:
        raise RecipeError(f"name a study: {', '.join(STUDIES)}. See `reconet study --list`.")
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
    print_result({"studies": values}, [studies_table(STUDIES.values())], as_json)
