"""Tables of `reconet cache`."""

import time
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from reconet.cache.manage import Item
from reconet.cli.tables.table import make_table
from reconet.system.files import readable_bytes
from reconet.system.readable import counted
from reconet.system.user_cache import FAST

LEFT = (1, 2, 3)  # columns of text
SECONDS = {"days": 86400, "hours": 3600, "minutes": 60}


def cache_table(root: Path, items: Sequence[Item]) -> Table:
    """Tabulate stores and projections, with a total."""
    columns = ["name", "what", "images", "network", "entries", "on disk", "last use"]
    rows = [
        [
            item.name,
            item.kind,
            _images(item),
            _network(item),
            f"{item.done:,} of {item.total:,}",
            readable_bytes(item.bytes),
            "now" if item.in_use else _ago(time.time() - item.last_use),
        ]
        for item in items
    ]
    table = make_table(f"Cache in {root}", columns, rows)
    for index in LEFT:
        table.columns[index].justify = "left"
        table.columns[index].overflow = "fold"
    total = readable_bytes(sum(item.bytes for item in items))
    table.caption = f"{total} in all" if items else "It is empty."
    return table


def _images(item: Item) -> str:
    about = item.about
    parts = [about.get("dataset"), about.get("split")]
    if about.get("dataset") == "folder" and about.get("root"):
        parts.append(f"in {about['root']}")
    text = " ".join(str(part) for part in parts if part)
    if item.kind == FAST:
        return "-"
    if about.get("views"):
        height, width = about.get("crop", ("?", "?"))
        text += f", {counted(about['views'], 'view')} of {height} x {width}"
    elif item.kind == "whole images":
        text += f", long side {about.get('base_size', '?')}"
    return text or "?"


def _network(item: Item) -> str:
    about = item.about
    if item.kind in ("masks", "labels"):
        return "-"
    if item.kind == FAST:
        return str(about.get("network", "?"))
    if not isinstance(about.get("output_stride"), int):
        return "?"
    weights = about.get("weights") or "random weights"
    components = f", {about['project']} components" if about.get("project") else ""
    return f"{about.get('backbone')}, {weights}, stride {about['output_stride']}{components}"


def _ago(seconds: float) -> str:
    for unit, length in SECONDS.items():
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return "just now"
