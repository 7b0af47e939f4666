"""Types of values that settings have: numbers within bounds, sizes, options, weights.

Recipes also come from files of strangers. So everything that sizes what is built has a bound.
"""

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    JsonValue,
    Tag,
)

LONGEST_TEXT = 4096  # as long as a path may be
MOST_VALUES = 10_000  # in the options of a dataset or a context, over all lists and tables in them
DEEPEST = 8  # lists within lists
SMALLEST = 1e-12  # far smaller numbers are 0 in the arithmetic of a network


def not_tiny(value: float) -> float:
    """Refuse numbers that count as 0 without being 0."""
    if 0 < abs(value) < SMALLEST:
        raise ValueError(f"a number other than 0 must be at least {SMALLEST:g}")
    return value


def no_truth_for_number(value: Any, read: Callable[[Any], Any]) -> Any:
    """Refuse true and false where a number is read: pydantic takes them for 1 and 0."""
    checked = read(value)
    if _holds_truth(value) and not _holds_truth(checked):
        raise ValueError("takes a number")
    return checked


def _holds_truth(value: object) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_holds_truth, value))
    return isinstance(value, bool)


Real = Annotated[float, AfterValidator(not_tiny)]
Fraction = Annotated[Real, Field(ge=0, le=1)]
Positive = Annotated[Real, Field(gt=0, le=1e6)]
# Strict, because `true` would otherwise count as 1. Bounded by what a machine can hold.
Count = Annotated[int, Field(gt=0, le=10**9, strict=True)]
Side = Annotated[int, Field(gt=0, le=2**15, strict=True)]
Seed = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
Weight = Annotated[Real, Field(ge=0, le=1000)]
Zoom = Annotated[float, Field(ge=0.01, le=16)]  # below it nothing is left; beyond it takes hours
# The configuration of a backbone comes from files of strangers, and sizes what is built.
ConfigName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
ConfigText = Annotated[str, Field(max_length=64)]
ConfigNumber = Annotated[int, Field(ge=-1, le=2**15, strict=True)]
ConfigReal = Annotated[float, Field(ge=-1e6, le=1e6, strict=True)]
ConfigPlain = bool | ConfigNumber | ConfigReal | ConfigText | None
ConfigList = Annotated[list[ConfigPlain], Field(max_length=64)]
BackboneConfig = Annotated[
    dict[ConfigName, ConfigPlain | ConfigList | list[ConfigList]], Field(max_length=64)
]
HUB_PREFIX = "hf:"  # of a backbone that the package transformers has


def both_sides(value: object) -> object:
    """Read 512 as (512, 512) and "512x1024" as (512, 1024): height, then width."""
    if isinstance(value, str):
        parts = value.split("x") if "x" in value else [value, value]
        return tuple(int(part) if part.strip().isdecimal() else part for part in parts)
    return (value, value) if isinstance(value, int) else value


def rising(value: tuple[float, float]) -> tuple[float, float]:
    if value[0] > value[1]:
        raise ValueError("the first number must not be larger than the second")
    return value


def small_options(options: dict[str, Any]) -> dict[str, Any]:
    """Refuse options that no person writes. What each of them may be is checked where it is used.

    A file of a stranger may hold a list of a million values, or a thousand lists in one another.
    """
    level: list[Any] = [options]
    count = 0
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner += [*value, *value.values()]
            elif isinstance(value, list):
                inner += value
            elif isinstance(value, float) and not math.isfinite(value):
                raise ValueError("a number must be finite")
            elif isinstance(value, str) and len(value) > LONGEST_TEXT:
                raise ValueError(f"a text has more than {LONGEST_TEXT:,} letters")
        count += len(inner)
        if count > MOST_VALUES:
            raise ValueError(f"there are more than {MOST_VALUES:,} values")
        level = inner
    if level:
        raise ValueError(f"lists and tables are nested more than {DEEPEST - 2} deep")
    return options


Size = Annotated[tuple[Side, Side], BeforeValidator(both_sides)]
Options = Annotated[dict[str, JsonValue], AfterValidator(small_options)]


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that is there twice in JSON, which would take the last one and say nothing."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"{name!r} is there more than once")
        values[name] = value
    return values


def _kind_of_weights(value: object) -> str:
    return "=word" if isinstance(value, str) else "=list"


# The kind decides which of the two an error is about. Messages leave out the mark.
ClassWeights = Annotated[
    Annotated[tuple[Positive, ...], Field(min_length=1), Tag("=list")]
    | Annotated[Literal["balanced"], Tag("=word")],
    Discriminator(_kind_of_weights),
]
