"""Tables of `reconet export`."""

import math

from rich.console import RenderableType
from rich.text import Text

from reconet.cli.tables.table import MIB, make_table
from reconet.export import Attempt, Export


def export_tables(result: Export) -> list[RenderableType]:
    """Return the differences to the network, the loss of int8, how to feed the file, its path."""
    rows = [
        [
            f"{d.images} x {d.size[0]} x {d.size[1]}",
            f"{d.logits:.1e}",
            f"{math.floor(1e5 * d.labels) / 1e3:.3f} %",  # 100 only if all are the same
        ]
        for d in result.differences
    ]
    columns = ["images", "largest difference of logits", "same labels"]
    parts: list[RenderableType] = [
        Text(f"{result.how} against the network, on {result.images}", style="bold"),
        make_table("", columns, rows),
    ]
    if result.tries:
        columns = ["kept in fp32", "mIoU % before", "after", "loss"]
        title = f"int8, calibrated by {result.calibrated_on}, scored on {result.scored_on or '-'}"
        parts.append(Text("int8 is judged by its mIoU. The differences above have no limit."))
        parts.append(Text(title, style="bold"))
        parts.append(make_table("", columns, [_attempt_row(one) for one in result.tries]))
    if result.remark:
        parts.append(Text(result.remark))
    return [*parts, Text(result.feed), Text(f"{result.path}: {result.bytes / MIB:.2f} MiB")]


def _attempt_row(one: Attempt) -> list[str]:
    """Format an attempt at int8. The loss is the difference of the two rounded scores."""
    kept = ", ".join(one.kept) or "nothing"
    if one.before is None or one.after is None:
        return [kept, "-", "-", "-"]
    before, after = round(100 * one.before, 2), round(100 * one.after, 2)
    return [kept, f"{before:.2f}", f"{after:.2f}", f"{round(before - after, 2) + 0.0:.2f}"]
