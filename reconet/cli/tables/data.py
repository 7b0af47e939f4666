"""Tables of `reconet data`."""

from collections.abc import Mapping

from rich.table import Table

from reconet.cli.tables.table import make_table, make_text_table
from reconet.data.check_report import Listing
from reconet.data.dataset import DatasetInfo


def dataset_table(infos: Mapping[str, DatasetInfo]) -> Table:
    rows = []
    for name, info in infos.items():
        splits = ", ".join(f"{split} {count or '?'}" for split, count in info.splits.items())
        classes = str(len(info.classes)) if info.classes else "yours"
        rows.append([name, info.title, classes, splits, info.licence, info.source])
    columns = ["name", "what", "classes", "images", "licence", "source"]
    return make_text_table("Datasets", columns, rows)


def listing_table(listing: Listing) -> Table:
    make = make_text_table if listing.title == "Problems" else make_table
    return make(listing.title, listing.columns, listing.rows)
