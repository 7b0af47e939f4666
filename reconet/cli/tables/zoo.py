"""The table of `reconet zoo`."""

from collections.abc import Collection, Sequence

from rich.table import Table

from reconet.cli.tables.table import make_table
from reconet.zoo import ListedNetwork

LEFT = (1, 2, 3, 6)  # columns of text


def zoo_table(networks: Sequence[ListedNetwork], here: Collection[str]) -> Table:
    """Tabulate networks that have names. Those of `here` need no download."""
    columns = ["name", "method", "backbone", "dataset", "mIoU %", "size", "licence", "here"]
    rows = [
        [
            one.name,
            one.context,
            one.backbone,
            one.dataset,
            f"{100 * one.miou:.2f}",
            f"{one.megabytes} MB",
            one.licence,
            "yes" if one.name in here else "",
        ]
        for one in networks
    ]
    table = make_table("Networks by name", columns, rows)
    for index in LEFT:
        table.columns[index].justify = "left"
    table.caption = (
        f"{len(rows)} networks. mIoU is as its makers state it, at one scale, and not comparable "
        "between datasets. Sizes are about. Licences are those of the weights."
    )
    return table
