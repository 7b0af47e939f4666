"""Arguments and options that several verbs share, and how their text is read.

The same thing has the same name in every verb. An option that one verb has is in the verb's file.
"""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconet.errors import RecipeError, pick

if TYPE_CHECKING:
    from reconet.recipes import Recipe

RecipeArgument = Annotated[
    str,
    typer.Argument(metavar="RECIPE", help="A name of `reconet recipes`, a recipe file, or a run."),
]
NetworkArgument = Annotated[
    str,
    typer.Argument(
        metavar="NETWORK",
        help="A run directory, a .safetensors file, or a name of `reconet zoo`.",
    ),
]
AnyNetworkArgument = Annotated[
    str,
    typer.Argument(
        metavar="NETWORK",
        help="A run directory, a .safetensors file, an export, or a name of `reconet zoo`.",
    ),
]
DatasetArgument = Annotated[
    str, typer.Argument(metavar="DATASET", help="A name of `reconet data list`.")
]

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting. May be repeated."),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="FILE", help="Your own dataset, described in a file such as mine.yaml."
    ),
]
FolderArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder with your own images and labels.")
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="Format of a folder's labels, by default recognised."
    ),
]


def _import_own(modules: list[str] | None) -> list[str] | None:
    """Import while the arguments are read, so that every verb knows what was imported."""
    from reconet.system.own_code import import_own

    for module in modules or ():
        import_own(module)
    return modules


ImportOption = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        callback=_import_own,
        help="Import a module or a .py file with datasets, contexts, backbones or networks of "
        "your own. May be repeated.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DeviceOption = Annotated[
    str, typer.Option("--device", metavar="NAME", help="auto, cpu, cuda, cuda:1, ...")
]
PrecisionOption = Annotated[
    str | None,
    typer.Option(
        "--precision",
        metavar="fp32|bf16|auto",
        help="By default fp32. auto: bf16 if that is safe and faster here.",
    ),
]
FastOption = Annotated[
    bool,
    typer.Option(
        "--fast",
        help="int8 where that keeps the labels. The first call measures, for minutes.",
    ),
]
RootOption = Annotated[
    Path | None,
    typer.Option(
        "--root", metavar="DIR", help="Directory of the dataset, by default that of the recipe."
    ),
]
DatasetRootOption = Annotated[
    Path | None,
    typer.Option(
        "--root", metavar="DIR", help="Directory of the dataset, by default $RECONET_DATA/<name>."
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", min=0, help="Processes, by default one per core."),
]
ContextOption = Annotated[
    list[str] | None,
    typer.Option("--context", metavar="NAME", help="Context to compare. May be repeated."),
]
RoundsOption = Annotated[
    int, typer.Option("--rounds", metavar="N", min=1, help="Rounds, of which the median counts.")
]
BackboneOption = Annotated[
    str, typer.Option("--backbone", metavar="NAME", help="Backbone of the network.")
]
SizeOption = Annotated[
    str, typer.Option("--size", metavar="HxW", help="Height and width, such as 512 or 512x1024.")
]

# How a network sees an image. Each replaces a setting of the recipe.
ScalesOption = Annotated[
    str | None,
    typer.Option("--scales", metavar="0.75,1,...", help="Average over these scales."),
]
FlipOption = Annotated[
    bool | None, typer.Option("--flip/--no-flip", help="Average over the mirrored image too.")
]
ModeOption = Annotated[
    str | None,
    typer.Option("--mode", metavar="whole|slide", help="Whole images, or sliding windows."),
]
RelativeToOption = Annotated[
    str | None,
    typer.Option(
        "--relative-to",
        metavar="SIZE",
        help="What a scale of 1 means: base_size, short_side or original.",
    ),
]

UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30, "": 1}


def resolve_recipe(
    name: str, settings: list[str] | None, data_file: Path | None = None
) -> "Recipe":
    """Return the recipe of this name or file, with --data and then --set applied."""
    from reconet.recipes import apply_overrides, find_recipe

    return apply_overrides(find_recipe(name), [*data_settings(data_file), *(settings or [])])


def data_settings(data_file: Path | None) -> list[str]:
    """Return what --data means, as settings of a recipe."""
    if data_file is None:
        return []
    from reconet.data.dataset_file import dataset_settings

    return dataset_settings(data_file)


def check_settings(settings: list[str] | None) -> list[str]:
    """Refuse settings that would change nothing: the network is trained."""
    for setting in settings or ():
        if not setting.startswith(("data.", "eval.")):
            raise RecipeError(f"--set takes settings of data and eval here, got {setting!r}.")
    return settings or []


def parse_size(text: str) -> tuple[int, int]:
    """Read a height and a width: "512x1024", or "512" for both."""
    match = re.fullmatch(r"(\d{1,9})(?:x(\d{1,9}))?", text)
    height, width = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if height == 0 or width == 0:
        raise RecipeError(f"--size takes a number or HEIGHTxWIDTH, such as 512x1024, got {text!r}.")
    return height, width


def eval_settings(
    scales: str | None, flip: bool | None, mode: str | None, relative_to: str | None
) -> list[str]:
    """Return the options as settings of a recipe, which checks their bounds."""
    settings = []
    if scales is not None:
        if not all(_is_scale(part) for part in scales.split(",")):
            raise RecipeError(
                f"--scales takes numbers above 0, such as 0.75,1,1.25, got {scales!r}."
            )
        settings.append(f"eval.scales={[float(scale) for scale in scales.split(',')]}")
    if flip is not None:
        settings.append(f"eval.flip={str(flip).lower()}")
    if mode is not None:
        settings.append(f"eval.mode={_one_of(('whole', 'slide'), mode, '--mode')}")
    if relative_to is not None:
        known = ("base_size", "short_side", "original")
        settings.append(f"eval.relative_to={_one_of(known, relative_to, '--relative-to')}")
    return settings


def _is_scale(text: str) -> bool:
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False


def _one_of(known: tuple[str, ...], name: str, option: str) -> str:
    return pick({one: one for one in known}, name, option)


def parse_amount(text: str, option: str, least: int = 1) -> int:
    """Read an amount: 20MB, 2GiB, 25M, 1.5g or a plain number."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*((?:[kmg]i?)?)b?", text.strip().lower())
    if match is None:
        raise RecipeError(f"{option} takes an amount such as 20MB or 500000, got {text!r}.")
    amount = int(float(match[1]) * UNITS[match[2]])
    if amount < least:
        raise RecipeError(f"{option} must be at least {_as_amount(least)}, got {text!r}.")
    return amount


def _as_amount(number: int) -> str:
    """Write 67108864 as 64MiB."""
    for unit in ("gi", "mi", "ki"):
        if number % UNITS[unit] == 0:
            return f"{number // UNITS[unit]}{unit.capitalize()}B"
    return str(number)
