"""reconet cache: list and clear what can be made again."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reconet.cli.arguments import JSON, argument, option
from reconet.cli.output import bold, print_note, print_result
from reconet.system.files import readable_bytes
from reconet.system.readable import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from reconet.cache import Item

SECONDS = {"days": 86400, "hours": 3600, "minutes": 60}


def list_(as_json: bool = JSON) -> None:
    """List what is cached: features, drawn masks, what --fast found.

    Each has its dataset and network, and how complete it is.

    The cache is in $RECONET_CACHE, by default in ~/.cache/reconet. docs/frozen.md tells what it
    is for.

    \b
    Examples:
      reconet cache list
      reconet cache list --json
    """
    from reconet.cache import cache_root, list_cache

    root, items = cache_root(), list_cache()
    values = {
        "folder": str(root),
        "bytes": sum(item.bytes for item in items),
        "items": [item.as_dict() for item in items],
    }
    print_result(values, _listing(root, items), as_json)


def clear(
    names: list[str] | None = argument(
        "NAME", "A name of `reconet cache list`, or a dataset.", None
    ),
    everything: bool = option("--all", "Clear the whole cache.", False),
    older_than: float | None = option(
        "--older-than DAYS", "Only what was not used for so long.", min=0
    ),
    as_json: bool = JSON,
) -> None:
    """Delete what is cached. It is made again when it is needed.

    That is features, drawn masks, and what --fast has found. What a running process uses is left
    alone. `reconet data prepare DIR` draws masks again.

    \b
    Examples:
      reconet cache clear voc12
      reconet cache clear 1f0c2a9b-77d0e4c1
      reconet cache clear --older-than 30
      reconet cache clear --all
    """
    from reconet.cache import cache_root, clear_cache

    done = clear_cache(names or (), everything=everything, older_than=older_than)
    values = {
        "freed_bytes": done.bytes,
        "cleared": [item.name for item in done.items],
        "in_use": [item.name for item in done.in_use],
    }
    items = counted(len(done.items), "item")
    text = f"freed {readable_bytes(done.bytes)} of {items} in {cache_root()}"
    print_result(values, [text], as_json)
    for item in done.in_use:
        print_note(f"{item.name} is in use by a running process, and stays.")


def _listing(root: Path, items: "Sequence[Item]") -> "list[RenderableType]":
    """Return a few lines for each item: names and paths are copied, so no table breaks them."""
    lines: list[RenderableType] = [bold(f"Cache in {root}")]
    for item in items:
        used = "now" if item.in_use else _ago(time.time() - item.last_use)
        lines += [
            bold(item.name),
            f"  {item.kind}, {item.done:,} of {item.total:,}, {readable_bytes(item.bytes)}, "
            f"last used {used}",
            f"  images: {_images(item)}",
            f"  network: {_network(item)}",
        ]
    total = readable_bytes(sum(item.bytes for item in items))
    return [*lines, f"{total} in all" if items else "It is empty."]


def _images(item: "Item") -> str:
    from reconet.system.user_cache import FAST

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


def _network(item: "Item") -> str:
    from reconet.system.user_cache import FAST

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


VERBS: dict[str, Callable[..., None]] = {"list": list_, "clear": clear}
