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
    """List the networks that can be used by name.

    Those of this package come first. A public one is fetched when it is first used, converted,
    and kept in the cache.

    \b
    Examples:
      reconet zoo
      reconet zoo pspnet ade20k
      reconet zoo torchvision --json
    """
    from reconet.cli.tables.zoo import zoo_table
    from reconet.errors import RecipeError
    from reconet.inference import describe_shipped
    from reconet.zoo import ListedNetwork, cached_path, search_public

    own, public = describe_shipped(words or []), search_public(words or [])
    found: list[ListedNetwork] = [*own, *public]
    if not found:
        raise RecipeError(f"no network has {' and '.join(words or [])}. Try `reconet zoo`.")
    cached = {one.name for one in public if cached_path(one).is_file()}
    here = cached | {one.name for one in own}
    rows = [asdict(one) | {"cached": one.name in here} for one in found]
    print_result({"networks": rows}, [zoo_table(found, here)], as_json)
