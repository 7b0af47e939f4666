"""Make a table: the one layout for all verbs."""

from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from reconet.system.readable import printable

MIB = 2**20


def make_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table with text in its first column and numbers in the others."""
    table = Table(
        title=printable(title),
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    for index, column in enumerate(columns):
        table.add_column(printable(column), justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*map(printable, row))
    return table


def make_text_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table of text, which may be long."""
    table = make_table(title, columns, rows)
    for column in table.columns:
        column.justify = "left"
        column.overflow = "fold"
    return table
