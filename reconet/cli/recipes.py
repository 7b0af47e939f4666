"""Verbs about recipes."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.common import Json, RecipeName, Set, resolve
from reconet.cli.output import print_json


def recipes(as_json: Json = False) -> None:
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


def show(
    recipe: RecipeName,
    settings: Set = None,
    out: Annotated[Path | None, typer.Option(help="Write the recipe to this file.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Also build the network and load its weights.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print a recipe as it would run, one setting a line, in the form that --set takes.

    \b
    Examples:
      reconet show voc12/reconet_r101
      reconet show voc12/reconet_r101 --set model.rank=32 --set optim.lr=0.002
      reconet show ade20k/reconet_r50 --set model.weights=resnet50s.safetensors --check
      reconet show scenes/reconet --set train.epochs=2 --out short.json
    """
    from reconet.recipes.schema import list_settings
    from reconet.recipes.storage import dump_recipe, write_recipe

    resolved = resolve(recipe, settings)
    if check:
        from reconet.models.segmenter import build_model
        from reconet.models.weights import load_backbone

        model = build_model(resolved, num_classes=2, pretrained=False)
        about = "# the network builds"
        if resolved.model.weights is not None:
            loaded = load_backbone(model.backbone, resolved.model.weights)
            about += (
                f"; {resolved.model.weights}: {len(loaded.loaded)} tensors fit, "
                f"{len(loaded.ignored)} are not needed; no file can tell where the stride belongs "
                f"(model.stride_on={resolved.model.stride_on})"
            )
        print(about, file=sys.stderr)
    if out is not None:
        write_recipe(resolved, out)
        print(f"# written to {out}", file=sys.stderr)
    if as_json:
        print(dump_recipe(resolved))
        return
    lines = list(list_settings(resolved))
    values = [f"{name}={_as_setting(value)}" for name, value, _ in lines]
    width = min(48, max(map(len, values)))
    for value, (_, _, about) in zip(values, lines, strict=True):
        print(f"{value:<{width}}  # {about}")


def _as_setting(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
