"""Options that several verbs share, and how the text of arguments is read.

The same thing has the same name in every verb. A verb describes its own options in its signature:
`out: Path | None = option("--out DIR", "Folder to write.")`.
"""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from reconet.errors import RecipeError, pick

if TYPE_CHECKING:
    from reconet.recipes import Recipe

REQUIRED: Any = ...
LEAST_MEMORY = 2**26  # bytes: no network fits into less
UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30, "": 1}


def option(flags: str, about: str, default: Any = None, **more: Any) -> Any:
    """Describe an option: its flags and the name of its value, as in "-o --out DIR", and its help.

    `more` is for typer.Option: bounds, a callback.
    """
    names, metavar = flags.split(), None
    if not names[-1].startswith("-"):
        metavar = names.pop()
    return typer.Option(default, *names, metavar=metavar, help=about, **more)


def argument(name: str, about: str, default: Any = REQUIRED) -> Any:
    """Describe an argument without a flag."""
    return typer.Argument(default, metavar=name, help=about, show_default=False)


def _import_own(modules: list[str] | None) -> list[str] | None:
    """Import while the arguments are read, so that every verb knows what was imported."""
    from reconet.system.own_code import import_own

    for module in modules or ():
        import_own(module)
    return modules


RECIPE = argument("RECIPE", "A name of `reconet recipes`, a recipe file, or a run.")
NETWORK = argument("NETWORK", "A run directory, a .safetensors file, or a name of `reconet zoo`.")
ANY_NETWORK = argument(
    "NETWORK", "A run directory, a .safetensors file, an export, or a name of `reconet zoo`."
)
SET = option("--set KEY=VALUE", "Change a setting. May be repeated.")
DATA = option("--data FILE", "Your own dataset, described in a file such as mine.yaml.")
FORMAT = option("--format NAME", "Format of a folder's labels, by default recognised.")
IMPORT = option(
    "--import MODULE",
    "Import a module or a .py file with datasets, contexts, backbones or networks of your own. "
    "May be repeated.",
    callback=_import_own,
)
JSON = option("--json", "Print JSON instead of a table.", False)
DEVICE = option("--device NAME", "auto, cpu, cuda, cuda:1, ...", "auto")
PRECISION = option(
    "--precision fp32|bf16|auto", "By default fp32. auto: bf16 if that is safe and faster here."
)
FAST = option(
    "--fast", "int8 where that keeps the labels. The first call measures, for minutes.", False
)
ROOT = option("--root DIR", "Directory of the dataset, by default that of the recipe.")
DATASET_ROOT = option("--root DIR", "Directory of the dataset, by default $RECONET_DATA/<name>.")
WORKERS = option("--workers N", "Processes, by default one per core.", min=0)

# How a network sees an image. Each replaces a setting of the recipe.
SCALES = option("--scales 0.75,1,...", "Average over these scales.")
FLIP = option("--flip/--no-flip", "Average over the mirrored image too.")
MODE = option("--mode whole|slide", "Whole images, or sliding windows.")
RELATIVE_TO = option(
    "--relative-to SIZE", "What a scale of 1 means: base_size, short_side or original."
)


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


def eval_settings(
    scales: str | None, flip: bool | None, mode: str | None, relative_to: str | None
) -> list[str]:
    """Return the options as settings of a recipe, which checks their bounds."""
    settings = []
    if scales is not None:
        try:
            numbers = [float(scale) for scale in scales.split(",")]
        except ValueError:
            numbers = [0]
        if not all(0 < number < math.inf for number in numbers):
            raise RecipeError(
                f"--scales takes numbers above 0, such as 0.75,1,1.25, got {scales!r}."
            )
        settings.append(f"eval.scales={numbers}")
    if flip is not None:
        settings.append(f"eval.flip={str(flip).lower()}")
    for flag, key, value, known in (
        ("--mode", "mode", mode, ("whole", "slide")),
        ("--relative-to", "relative_to", relative_to, ("base_size", "short_side", "original")),
    ):
        if value is not None:
            settings.append(f"eval.{key}={pick(dict.fromkeys(known, value), value, flag)}")
    return settings


def parse_size(text: str) -> tuple[int, int]:
    """Read a height and a width: "512x1024", or "512" for both."""
    match = re.fullmatch(r"(\d{1,9})(?:x(\d{1,9}))?", text)
    height, width = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if height == 0 or width == 0:
        raise RecipeError(f"--size takes a number or HEIGHTxWIDTH, such as 512x1024, got {text!r}.")
    return height, width


def parse_amount(text: str, flag: str, least: int = 1) -> int:
    """Read an amount: 20MB, 2GiB, 25M, 1.5g or a plain number."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*((?:[kmg]i?)?)b?", text.strip().lower())
    if match is None:
        raise RecipeError(f"{flag} takes an amount such as 20MB or 500000, got {text!r}.")
    amount = int(float(match[1]) * UNITS[match[2]])
    if amount < least:
        smallest = f"{least // 2**20}MiB" if least % 2**20 == 0 else str(least)
        raise RecipeError(f"{flag} must be at least {smallest}, got {text!r}.")
    return amount
