"""Tables about a folder of your own images."""

from rich.console import RenderableType

from reconet.cli.tables.data import listing_table
from reconet.cli.tables.table import make_text_table
from reconet.engine import Inspection

MOST_CLASSES = 8  # that the short form names


def inspection_parts(found: Inspection, *, short: bool) -> list[RenderableType]:
    """Return what is known about a folder: what it is, what is wrong, and how to train on it."""
    others = f" (also looks like {', '.join(found.found.others)})" if found.found.others else ""
    lines = [f"{found.folder}: {found.title}{others}", f"  {found.found.evidence}"]
    if short:
        lines += [_splits(found), _classes(found)]
    tables = [] if short else [listing_table(one) for one in found.report.listings()]
    findings = found.report.lines()
    kept = [line for line in findings[:-1] if not line.startswith("not there: ")]
    settings = make_text_table("Settings", ["setting", "value", "why"], found.rows)
    notes = [f"note: {note}" for note in found.notes]
    return [*lines, *tables, *notes, *kept, settings]


def _splits(found: Inspection) -> str:
    counts = [f"{one.split} {one.images:,}" for one in found.report.splits]
    return f"images: {', '.join(counts)}"


def _classes(found: Inspection) -> str:
    classes, shares = found.report.classes, found.facts.shares
    order = sorted(range(len(classes)), key=lambda k: -shares[k])[:MOST_CLASSES]
    named = ", ".join(f"{classes[k]} {100 * shares[k]:.2g} %" for k in order)
    more = ", ..." if len(classes) > len(order) else ""
    return f"classes: {len(classes)} ({named}{more})"
