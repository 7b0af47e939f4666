"""reconet study."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from reconet.cli.arguments import (
    DATA,
    DEVICE,
    IMPORT,
    JSON,
    SET,
    argument,
    option,
    resolve_recipe,
)
from reconet.cli.output import make_table, print_line, print_result, show_progress
from reconet.errors import RecipeError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from reconet.study import StudyPlan, StudyResult

MOST_SEEDS = 1000
FULL, QUICK = "scenes/study", "scenes/study_quick"


def study(
    name: str | None = argument("STUDY", "components, rank, contexts, attention or project.", None),
    recipe: str | None = option("--recipe RECIPE", f"Recipe to vary, by default {FULL} (a night)."),
    settings: list[str] | None = SET,
    data_file: Path | None = DATA,
    seeds: str | None = option(
        "--seeds N|LIST",
        "Trainings per variant (5), or which seeds (0,1,2 or 3-7); by default 1 to 5.",
    ),
    variants: str | None = option("--variants A,B,...", "Only these variants of --list."),
    baseline: str | None = option(
        "--baseline NAME",
        "Variant to compare the others with; by default the study's own, or else the first.",
    ),
    out: Path | None = option(
        "--out DIR", "Folder to write, by default runs/study-<study>[-quick]."
    ),
    added: list[Path] | None = option(
        "--add FILE",
        "results.json of the same study from elsewhere: its trainings are not run again.",
    ),
    quick: bool = option(
        "--quick", f"Minutes, not hours: {QUICK}, fewer variants and seeds.", False
    ),
    jobs: int | None = option(
        "--jobs N", "Trainings side by side, by default one per core or GPU.", min=1
    ),
    keep_networks: bool = option(
        "--keep-networks",
        "Keep the networks of frozen recipes, which are deleted once they are scored.",
        False,
    ),
    list_only: bool = option(
        "--list", "List the studies, or the variants of one, and exit.", False
    ),
    markdown: bool = option("--markdown", "Print Markdown instead of a table.", False),
    device: str = DEVICE,
    as_json: bool = JSON,
    imports: list[str] | None = IMPORT,
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

    plan = make_plan(
        name,
        resolve_recipe(recipe or (QUICK if quick else FULL), settings, data_file),
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
    """Print the tables, then the conditions that they were measured under."""
    from reconet.study import page
    from reconet.study.results import conditions

    if markdown:
        print_line(page.render_markdown(result))
        return
    data = result.recipe.data
    splits = f"{data.name}, trained on {data.train_split}, scored on {data.val_split}"
    titles = (f"{result.study.question} {splits}", "What the attention does")
    parts: list[RenderableType] = [
        make_table(title, text.columns, text.rows, caption="\n".join(text.caption))
        for title, text in zip(titles, page.study_tables(result), strict=False)
    ]
    parts += [f"{name}: {value}" for name, value in conditions(result)]
    print_result(result.as_dict(), parts, as_json)


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
    """Print the variants, with settings quoted for a shell."""
    values, rows = [], []
    for variant in plan.variants:
        settings = variant.settings_on(plan.recipe)
        values.append({"name": variant.name, "about": variant.about, "set": settings})
        quoted = " ".join(f"--set {shlex.quote(setting)}" for setting in settings)
        rows.append([variant.name, variant.about, quoted])
    columns = ("variant", "what it is", "settings")
    caption = f"seeds {', '.join(map(str, plan.seeds))}; baseline {plan.baseline}"
    table = make_table(plan.study.question, columns, rows, text=columns, caption=caption)
    print_result({"study": plan.study.name, "variants": values}, [table], as_json)


def _list_studies(wanted: bool, as_json: bool) -> None:
    from reconet.study import STUDIES

    if not wanted:
        raise RecipeError(f"name a study: {', '.join(STUDIES)}. See `reconet study --list`.")
    values, rows = [], []
    for study in STUDIES.values():
        names = [variant.name for variant in study.variants()]
        values.append(
            {
                "name": study.name,
                "question": study.question,
                "baseline": study.baseline,
                "variants": names,
                "seeds": study.seeds,
            }
        )
        rows.append([study.name, study.question, ", ".join(names)])
    columns = ("study", "question", "variants")
    caption = "reconet study STUDY --list shows the settings of the variants"
    table = make_table("Studies", columns, rows, text=columns, caption=caption)
    print_result({"studies": values}, [table], as_json)
