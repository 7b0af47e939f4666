"""Tables of `reconet study`."""

import shlex
from collections.abc import Iterable

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from reconet.cli.tables.table import make_table, make_text_table
from reconet.study import Study, StudyPlan, StudyResult, page
from reconet.study.results import conditions


def studies_table(studies: Iterable[Study]) -> Table:
    columns = ["study", "question", "variants"]
    rows = [[s.name, s.question, ", ".join(v.name for v in s.variants())] for s in studies]
    table = make_text_table("Studies", columns, rows)
    table.caption = "reconet study STUDY --list shows the settings of the variants"
    return table


def variants_table(plan: StudyPlan) -> Table:
    """Return the variants, with settings quoted for a shell."""
    rows = [
        [v.name, v.about, " ".join(f"--set {shlex.quote(s)}" for s in v.settings_on(plan.recipe))]
        for v in plan.variants
    ]
    table = make_text_table(plan.study.question, ["variant", "what it is", "settings"], rows)
    table.caption = f"seeds {', '.join(map(str, plan.seeds))}; baseline {plan.baseline}"
    return table


def study_tables(result: StudyResult) -> list[RenderableType]:
    """Return the tables, then the conditions that they were measured under."""
    data = result.recipe.data
    splits = f"{data.name}, trained on {data.train_split}, scored on {data.val_split}"
    titles = (f"{result.study.question} {splits}", "What the attention does")
    shown: list[RenderableType] = []
    for title, text in zip(titles, page.study_tables(result), strict=False):
        table = make_table(title, text.columns, text.rows)
        table.caption = "\n".join(text.caption)
        shown.append(table)
    return [*shown, *(Text(f"{name}: {value}") for name, value in conditions(result))]
