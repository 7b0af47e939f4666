"""Tables of `reconet predict`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from reconet.cli.tables.table import make_table
from reconet.inference import FolderResult
from reconet.system.readable import counted

KINDS = {"labels": "mask"}  # a file of labels is a mask


def prediction_tables(result: FolderResult, seconds: Mapping[str, float]) -> list[RenderableType]:
    """Return what was found and where it is, then how it was made and how long that took.

    Long texts are lines: a narrow table would break them.
    """
    (first, *others) = result.images
    parts = _one_image(result, first) if "shares" in first and not others else _counts(result)
    times = [f"{name} {seconds[name]:.1f}" for name in ("start", "open", "segment")]
    if result.prelabels is not None:
        written = result.prelabels
        what = f"{written.format}: {_short(written.folder)} ({counted(written.files, 'file')})"
        parts.append(Text(what, style="bold"))
    return [
        *parts,
        Text(f"network: {result.network}, run as {result.how}"),
        Text(f"protocol: {result.protocol}"),
        Text(f"time: {seconds['total']:.1f} s ({', '.join(times)})"),
    ]


def _one_image(result: FolderResult, image: Mapping[str, Any]) -> list[RenderableType]:
    """Return the classes of the image with their shares, and its files."""
    rows = [[name, f"{100 * share:.1f}"] for name, share in image["shares"].items()]
    again = " (done before; --overwrite does it again)" if image["status"] == "skipped" else ""
    return [
        make_table("", ["class", "% of the image"], rows),
        *(
            Text(f"{KINDS.get(kind, kind)}: {_short(result.out / name)}{again}", style="bold")
            for kind, name in image["outputs"].items()
        ),
    ]


def _counts(result: FolderResult) -> list[RenderableType]:
    counts = [str(len(result.having(status))) for status in ("done", "skipped", "failed")]
    return [
        Text(f"predictions in {_short(result.out)}", style="bold"),
        make_table("", ["images", "done", "skipped", "failed"], [["", *counts]]),
    ]


def _short(path: Path) -> str:
    """Return a path as the user would type it here."""
    here = Path.cwd()
    return os.path.relpath(path, here) if path.is_relative_to(here) else str(path)
