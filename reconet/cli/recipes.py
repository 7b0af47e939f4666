"""reconet recipes and reconet show: what can be trained, and with which settings."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from reconet.cli.arguments import DATA, IMPORT, JSON, RECIPE, SET, option, resolve_recipe
from reconet.cli.output import print_json, print_line, print_note

if TYPE_CHECKING:
    from reconet.recipes import Recipe


def recipes(as_json: bool = JSON) -> None:
    """List the recipes.

    \b
    Examples:
      reconet recipes
      reconet recipes --json
    """
    from reconet.recipes import RECIPES

    lines = {name: one.about for name, one in sorted(RECIPES.items())}
    if as_json:
        print_json(lines)
        return
    width = max(map(len, lines))
    for name, line in lines.items():
        print(f"{name:<{width}}  {line}")


def show(
    recipe: str = RECIPE,
    settings: list[str] | None = SET,
    data_file: Path | None = DATA,
    out: Path | None = option("--out FILE", "Also write the recipe to this file."),
    check: bool = option("--check", "Also build the network and load its weights.", False),
    as_json: bool = JSON,
    imports: list[str] | None = IMPORT,
) -> None:
    """Print all settings of a recipe, in the form that --set takes.

    \b
    Examples:
      reconet show voc12/reconet_r101
      reconet show voc12/reconet_r101 --set model.rank=32 --set optim.lr=0.002
      reconet show ade20k/reconet_r50 --set model.weights=resnet50s.safetensors --check
      reconet show scenes/tiny --set train.epochs=2 --out short.json
    """
    from reconet.engine import check_recipe
    from reconet.errors import IncompleteError
    from reconet.recipes import dump_recipe, list_settings, write_recipe

    resolved = resolve_recipe(recipe, settings, data_file)
    try:
        check_recipe(resolved)
    except IncompleteError as error:  # a recipe that still lacks something can be shown
        print_note(f"not yet complete: {error}")
    if check:
        print_line(f"# {_check_network(resolved)}", err=True)
    if out is not None:
        write_recipe(resolved, out)
        print_line(f"# written to {out}", err=True)
    if as_json:
        print(dump_recipe(resolved))
        return
    lines = [
        (f"{name}={value if isinstance(value, str) else json.dumps(value)}", about)
        for name, value, about in list_settings(resolved)
    ]
    width = min(48, max(len(setting) for setting, _ in lines))
    for setting, about in lines:
        print_line(f"{setting:<{width}}  # {about}")


def _check_network(recipe: "Recipe") -> str:
    """Build the network, load its weights, and describe them."""
    from reconet.models.backbone import load_backbone
    from reconet.models.segmenter import build_model

    model = build_model(recipe, num_classes=2, pretrained=False)
    weights = recipe.model.weights
    if weights is None:
        return "the network builds"
    loaded = load_backbone(model.backbone, weights)
    # What a file of weights of a ResNet leaves open.
    unsaid = (
        f"; the file does not say where the stride belongs "
        f"(model.stride_on={recipe.model.stride_on})"
    )
    return (
        f"the network builds; {weights}: {len(loaded.loaded)} tensors fit, "
        f"{len(loaded.ignored)} are not needed{unsaid if recipe.model.geometry else ''}"
    )
