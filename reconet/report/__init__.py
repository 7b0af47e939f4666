"""Results that a person can look at: one HTML file with all in it, that asks nobody for anything.

gather.py     a run directory, and its best network's answers   the only part that computes
charts.py, matrix.py, images.py, markup.py                     pure: values in, markup out
sections.py   the parts of a report
style.py      the page around them
"""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from reconet.errors import RecipeError
from reconet.report import sections
from reconet.report.gather import Gathered, Tell, gather
from reconet.report.markup import Markup, join, note, section, table, tag
from reconet.report.style import page
from reconet.system.distributed import World, joined
from reconet.system.files import check_file, write_text
from reconet.system.hardware import environment
from reconet.system.run_files import REPORT


def write_report(
    runs: Sequence[Path],
    out: Path | None = None,
    *,
    images: int = 8,
    device: str = "auto",
    tell: Tell = lambda line: None,
) -> Path | None:
    """Report on one run, or compare several. Of many processes only the leading one writes."""
    if not runs:
        raise RecipeError("a report needs a run directory.")
    names, path = run_names(runs), place_of(runs, out)
    check_file(path, is_report)
    with joined(device) as world:
        gathered = [
            gather(run, name, world, images=images, tell=tell)
            for run, name in zip(runs, names, strict=True)
        ]
        if not world.leads:
            return None
        about = _about(runs, out, images, world), _places(gathered)
        write_text(path, make_page(gathered, *about))
        return path


def place_of(runs: Sequence[Path], out: Path | None) -> Path:
    """Where the report goes: a folder that is named gets a report.html."""
    if out is None and len(runs) > 1:
        return Path(REPORT)
    path = out or (runs[0] if runs[0].is_dir() else runs[0].parent)
    return path / REPORT if path.is_dir() else path


def is_report(path: Path) -> bool:
    with path.open("rb") as file:
        return b"reconet report</title>" in file.read(4096)


def run_names(runs: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that tell the runs apart."""
    paths = [(run.parent if run.is_file() else run).resolve() for run in runs]
    if len(set(paths)) < len(paths):
        raise RecipeError("the same run is named twice.")
    for length in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-length:]) for path in paths]
        if len(set(names)) == len(names):
            break
    return names


def make_page(runs: Sequence[Gathered], *about: Markup) -> str:
    if len(runs) == 1:
        return page(f"{runs[0].name} - reconet report", *_one(runs[0]), *about)
    title = f"{len(runs)} runs compared"
    return page(f"{title} - reconet report", *_several(title, runs), *about)


def _one(run: Gathered) -> list[Markup]:
    parts = [tag("h1", run.name), _lead(run), sections.missing([run]), sections.tiles(run)]
    parts.append(sections.curves([run]))
    if run.answers is not None:
        parts += [
            sections.class_bars(run.answers),
            sections.confusion(run.answers),
            sections.images([run]),
        ]
    return [*parts, sections.recipe(run)]


def _several(title: str, runs: Sequence[Gathered]) -> list[Markup]:
    parts = [tag("h1", title), tag("p", ", ".join(r.name for r in runs), class_="lead")]
    parts += [sections.missing(runs), sections.scores_table(runs), sections.curves(runs)]
    answered = [run for run in runs if run.answers is not None]
    why_not = incomparable(answered)
    if why_not is not None:
        parts.append(section("Class by class", note(why_not)))
    elif len(answered) > 1:
        parts += [sections.class_comparison(answered), sections.images(answered)]
    parts.append(sections.differences(runs))
    side_by_side = why_not is None and len(answered) > 1
    return [*parts, *(_folded(run, side_by_side) for run in runs)]


def incomparable(runs: Sequence[Gathered]) -> str | None:
    """Why the classes and images of these runs do not belong side by side, if they do not."""
    for first, other in pairwise(runs):
        assert first.answers
        assert other.answers
        both = f"{first.name} and {other.name}"
        if first.answers.classes != other.answers.classes:
            return f"{both} know different classes: each has its own below."
        if [v.name for v in first.answers.views] != [v.name for v in other.answers.views] or (
            first.what != other.what
        ):
            return f"{both} were scored on different images: each has its own below."
    return None


def _folded(run: Gathered, side_by_side: bool) -> Markup:
    """One run of several; what stands above beside the others is not shown again."""
    parts, answers = [_lead(run)], run.answers
    if answers is not None:
        if not side_by_side:
            parts.append(sections.class_bars(answers, level=3))
        parts.append(sections.confusion(answers, level=3))
        if not side_by_side:
            parts.append(sections.images([run], level=3))
    parts.append(sections.recipe(run, level=3))
    what = "confusion, recipe" if side_by_side else "classes, confusion, images, recipe"
    return section(run.name, tag("details", tag("summary", what), *parts))


def _lead(run: Gathered) -> Markup:
    model, scored = run.recipe.model, ""
    if run.answers is not None:
        scored = f" Scored on {run.what}, {run.answers.images:,} images: {run.answers.protocol}."
    network = f"{model.context} on {model.backbone}"
    return tag("p", f"{network}, trained on {run.recipe.data.name}.{scored}", class_="lead")


def _about(runs: Sequence[Path], out: Path | None, images: int, world: World) -> Markup:
    """How to make this report, and the run, again."""
    options = [*([] if out is None else ["--out", str(out)]), "--images", str(images)]
    command = shlex.join(["reconet", "report", *map(str, runs), *options])
    again = [
        shlex.join(["reconet", "train", f"{run}/recipe.json", "--out", f"{run}-again"])
        for run in runs
        if run.is_dir()
    ]
    return section(
        "Environment",
        tag("p", f"Of this report, made on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by"),
        tag("code", command, class_="command"),
        table(("what", "version"), environment(world.device)),
        tag("p", "The same training once more:"),
        join(tag("code", line, class_="command") for line in again),
    )


def _places(runs: Sequence[Gathered]) -> Markup:
    """On what the runs were trained; old ones have not written it down."""
    facts = ("step", "processes", "reconet", "torch", "processor", "GPU", "system")
    rows = [
        (run.name, *(str(start.get(fact, "-")) for fact in facts))
        for run in runs
        for start in run.starts
    ]
    if not rows:
        return section(
            "TrainedNetwork on", note("these runs have not kept on what they were trained.")
        )
    return section("TrainedNetwork on", table(("run", "from step", *facts[1:]), rows))
