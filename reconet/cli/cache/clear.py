"""reconet cache clear."""

from typing import Annotated

import typer

from reconet.cli.arguments import JsonOption
from reconet.cli.output import print_note, print_result
from reconet.system.readable import counted

NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="A name of `reconet cache list`, or a dataset."),
]
AllOption = Annotated[bool, typer.Option("--all", help="Clear the whole cache.")]
OlderOption = Annotated[
    float | None,
    typer.Option("--older-than", metavar="DAYS", min=0, help="Only what was not used for so long."),
]


def clear(
    names: NamesArgument = None,
    everything: AllOption = False,
    older_than: OlderOption = None,
    as_json: JsonOption = False,
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
    from reconet.system.files import readable_bytes

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
