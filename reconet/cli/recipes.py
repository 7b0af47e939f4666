"""reconet recipes."""

from reconet.cli.arguments import JsonOption
from reconet.cli.output import print_json


def recipes(as_json: JsonOption = False) -> None:
    """List the recipes.

    \b
    Examples:
      reconet recipes
      reconet recipes --json
    """
    from reconet.recipes import RECIPES

    lines = {name: make.__doc__ or "" for name, make in sorted(RECIPES.items())}
    if as_json:
        print_json(lines)
        return
    width = max(map(len, lines))
    for name, line in lines.items():
        print(f"{name:<{width}}  {line}")
