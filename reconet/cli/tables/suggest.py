"""Tables of `reconet suggest`."""

from rich.console import RenderableType
from rich.text import Text

from reconet.cli.tables.table import make_table
from reconet.suggest import Suggestions, describe_columns, describe_figures
from reconet.system.readable import counted

TITLES = {"label-next": "label this next", "label-again": "label this again"}


def suggestion_tables(result: Suggestions, most: int) -> list[RenderableType]:
    """Return the first images with their figures, and where the page is."""
    shown, more = result.images[:most], len(result.images) - most
    rows = [[one.name, *describe_figures(one).values()] for one in shown]
    columns = ["image", *describe_columns(result.images[0])]
    rest = [Text(f"and {counted(more, 'image')} more: --json lists all")] if more > 0 else []
    return [
        make_table(f"{TITLES[result.kind]}: {result.of}", columns, rows),
        *rest,
        Text(f"protocol: {result.protocol}"),
        Text(f"page: {result.page}", style="bold"),
    ]
