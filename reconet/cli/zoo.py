"""reconet zoo."""

from dataclasses import asdict
from typing import Annotated

import typer

from reconet.cli.arguments import JsonOption
from reconet.cli.output import print_result

WordsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="WORD",
        help="List only networks with all of these words in their name, method, backbone, dataset "
        "or source.",
        show_default=False,
    ),
]


def zoo(words: WordsArgument = None, as_json: JsonOption = False) -> None:
    """List public networks that can be used by name.

    A network is fetched when it is first used, converted, and kept in the cache.

    \b
    Examples:
      reconet zoo
      reconet zoo pspnet ade20k
      reconet zoo torchvision --json
    """
    from reconet.cli.tables.zoo import zoo_table
    from reconet.errors import RecipeError
    from reconet.zoo import cached_path, search_public

    found = search_public(words or [])
    if not found:
        raise RecipeError(f"no public network has {' and '.join(words or [])}. Try `reconet zoo`.")
    cached = {one.name for one in found if cached_path(one).is_file()}
    rows = [asdict(one) | {"cached": one.name in cached} for one in found]
    print_result({"networks": rows}, [zoo_table(found, cached)], as_json)
