"""reconet show."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconet.cli.arguments import (
    DataOption,
    ImportOption,
    JsonOption,
    RecipeArgument,
    SetOption,
    resolve_recipe,
)
from reconet.cli.output import print_line, print_note

if TYPE_CHECKING:
    from reconet.recipes import Recipe

OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Also write the recipe to this file.")
]
CheckOption = Annotated[
    bool, typer.Option("--check", help="Also build the network and load its weights.")
]


def show(
    recipe: RecipeArgument,
    settings: SetOption = None,
    data_file: DataOption = None,
    out: OutOption = None,
    check: CheckOption = False,
    as_json: JsonOption = False,
    imports: ImportOption = None,
) -> None:
    """Print all settings of a recipe, in the form that --set takes.

    \b
    Examples:
      reconet show voc12/reconet_r101
      reconet show voc12/reconet_r101 --set model.rank=32 --set optim.lr=0.002
      reconet show ade20k/reconet_r50 --set model.weights=resnet50s.safetensors --check
      reconet show scenes/tiny --set train.epochs=2 --out short.json
    """
    from reconet.recipes import dump_recipe, list_settings, write_recipe

    resolved = resolve_recipe(recipe, settings, data_file)
    _check(resolved)
    if check:
        print_line(f"# {_check_network(resolved)}", err=True)
    if out is not None:
        write_recipe(resolved, out)
        print_line(f"# written to {out}", err=True)
    if as_json:
        print(dump_recipe(resolved))
        return
    lines = [
        (f"{name}={_as_setting(value)}", about) for name, value, about in list_settings(resolved)
    ]
    width = min(48, max(len(setting) for setting, _ in lines))
    for setting, about in lines:
        print_line(f"{setting:<{width}}  # {about}")


def _check(recipe: "Recipe") -> None:
    """Check what `train` checks. A recipe that still lacks something can be shown."""
    from reconet.engine import check_recipe
    from reconet.errors import IncompleteError

    try:
        check_recipe(recipe)
    except IncompleteError as error:
        print_note(f"not yet complete: {error}")


def _check_network(recipe: "Recipe") -> str:
    """Build the network, load its weights, and describe them."""
    from reconet.models.segmenter import build_model
    from reconet.models.weights import load_backbone

    model = build_model(recipe, num_classes=2, pretrained=False)
    weights = recipe.model.weights
    if weights is None:
        return "the network builds"
    loaded = load_backbone(model.backbone, weights)
    return (
        f"the network builds; {weights}: {len(loaded.loaded)} tensors fit, "
        f"{len(loaded.ignored)} are not needed{_unsaid(recipe)}"
    )


def _unsaid(recipe: "Recipe") -> str:
    """Say what a file of weights of a ResNet leaves open."""
    if not recipe.model.geometry:
        return ""
    return (
        "; the file does not say where the stride belongs "
        f"(model.stride_on={recipe.model.stride_on})"
    )


def _as_setting(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
