"""Tables of `reconet predict`."""

from rich.console import RenderableType
from rich.text import Text

from reconet.cli.tables.table import make_table
from reconet.inference import FolderResult


def prediction_tables(outcome: FolderResult) -> list[RenderableType]:
    """Return the counts, and long texts as lines: a narrow table would break them."""
    counts = [str(len(outcome.having(status))) for status in ("done", "skipped", "failed")]
    table = make_table("", ["network", "done", "skipped", "failed"], [])
    table.add_row(Text(outcome.network), *counts)
    return [
        Text(f"predictions in {outcome.out}", style="bold"),
        table,
        Text(f"protocol: {outcome.protocol}"),
        Text(f"network run as: {outcome.how}"),
    ]
