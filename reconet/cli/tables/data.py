"""Tables of `reconet data`."""

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from reconet.cli.tables.table import make_table, make_text_table
from reconet.data.check import Listing
from reconet.data.dataset import DatasetInfo


def dataset_tables(infos: Mapping[str, DatasetInfo]) -> list[Table | Text]:
    """Return a table, and a line per dataset with its source. A cell would break addresses."""
    rows, lines = [], []
    for name, info in infos.items():
        splits = ", ".join(f"{split} {count or '?'}" for split, count in info.splits.items())
        classes = str(len(info.classes)) if info.classes else "yours"
        rows.append([name, info.title, classes, splits])
        lines.append(Text(f"{name}: {info.source} (licence: {info.licence})"))
    table = make_text_table("Datasets", ["name", "what", "classes", "images"], rows)
    return [table, Text("Where to get them", style="bold"), *lines]


def listing_table(listing: Listing) -> Table:
    return make_table(listing.title, listing.columns, listing.rows)
