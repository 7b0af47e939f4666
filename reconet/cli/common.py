"""What several verbs share: arguments and options, and what they mean."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconet.errors import RecipeError, pick

if TYPE_CHECKING:
    from reconet.recipes.schema import Recipe

RecipeName = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A name of `reconet recipes`, or a saved recipe.")
]
Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run directory, or a .safetensors file.")
]
Network = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="A run directory, a .safetensors file, or an export."),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Device = Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda, cuda:1, ...")]

Precision = Annotated[
    str, typer.Option(metavar="auto|fp32|bf16", help="auto: the fastest that is safe here.")
]
Root = Annotated[
    Path | None, typer.Option(help="Where the dataset is, if not where it was trained.")
]
Scales = Annotated[str | None, typer.Option(metavar="0.75,1,...", help="Scales to average over.")]
Flip = Annotated[
    bool | None, typer.Option("--flip/--no-flip", help="Average over mirror images too.")
]
Mode = Annotated[str | None, typer.Option(metavar="whole|slide", help="Whole images, or windows.")]
RelativeTo = Annotated[
    str | None, typer.Option(metavar="base_size|original", help="What a scale of 1 means.")
]
LARGEST_SCALE = 16  # of recipe.Eval
UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30, "": 1}


def resolve(name: str, settings: list[str] | None) -> "Recipe":
    """A recipe by its name or file, with --set applied."""
    from reconet.recipes import find_recipe
    from reconet.recipes.overrides import apply_overrides

    return apply_overrides(find_recipe(name), settings or [])


def parse_size(text: str) -> tuple[int, int]:
    parts = text.split("x") if "x" in text else [text, text]
    if len(parts) != 2 or not all(_is_side(part) for part in parts):
        raise RecipeError(f"--size takes a number or HEIGHTxWIDTH, such as 512x1024, got {text!r}.")
    return int(parts[0]), int(parts[1])


def _is_side(text: str) -> bool:
    return text.isdecimal() and len(text) < 10 and int(text) > 0


def eval_settings(
    scales: str | None, flip: bool | None, mode: str | None, relative_to: str | None
) -> list[str]:
    """The options as settings of the recipe, which knows what they may be."""
    settings = []
    if scales is not None:
        if not all(_is_scale(part) for part in scales.split(",")):
            raise RecipeError(
                f"--scales takes numbers above 0 and up to {LARGEST_SCALE}, such as 0.75,1,1.25, "
                f"got {scales!r}."
            )
        settings.append(f"eval.scales={[float(scale) for scale in scales.split(',')]}")
    if flip is not None:
        settings.append(f"eval.flip={str(flip).lower()}")
    if mode is not None:
        settings.append(f"eval.mode={_one_of(('whole', 'slide'), mode, '--mode')}")
    if relative_to is not None:
        known = ("base_size", "original")
        settings.append(f"eval.relative_to={_one_of(known, relative_to, '--relative-to')}")
    return settings


def _is_scale(text: str) -> bool:
    try:
        return 0 < float(text) <= LARGEST_SCALE
    except ValueError:
        return False


def _one_of(known: tuple[str, ...], name: str, option: str) -> str:
    return pick({one: one for one in known}, name, option)


def parse_amount(text: str, option: str, least: int = 1) -> int:
    """20MB, 2GiB, 25M, 1.5g or a plain number."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*((?:[kmg]i?)?)b?", text.strip().lower())
    if match is None:
        raise RecipeError(f"{option} takes an amount such as 20MB or 500000, got {text!r}.")
    amount = int(float(match[1]) * UNITS[match[2]])
    if amount < least:
        raise RecipeError(f"{option} must be at least {least:,}, got {text!r}.")
    return amount
