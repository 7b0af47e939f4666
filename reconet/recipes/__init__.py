"""Describe a whole experiment by one recipe: data, model, loss, optimiser, training, evaluation.

registry.py    the table of recipes, and find_recipe
schema.py      every setting, with its type, default and meaning
values.py      types of values: numbers within bounds, sizes, options
overrides.py   change single settings, as `--set optim.lr=0.02` does
storage.py     read and write recipes as JSON files
choose.py      choose settings for somebody's own images, with reasons
paper.py       what all trainings of the paper have in common
frozen.py      what all trainings on frozen backbones have in common
convnext.py    what all trainings of a whole ConvNeXt have in common
ade20k.py ...  the recipes of one dataset

A recipe is called `<dataset>/<function>`. There is one for each dataset and backbone of the paper.
Other ranks, components and contexts are settings: `--set model.rank=32`, `--set model.context=fcn`.
"""

from reconet.recipes.overrides import apply_overrides, override, with_context
from reconet.recipes.registry import RECIPES, find_recipe
from reconet.recipes.schema import Recipe, list_settings
from reconet.recipes.storage import (
    dump_recipe,
    read_recipe,
    validate_recipe,
    without_paths,
    write_recipe,
)

__all__ = [
    "RECIPES",
    "Recipe",
    "apply_overrides",
    "dump_recipe",
    "find_recipe",
    "list_settings",
    "override",
    "read_recipe",
    "validate_recipe",
    "with_context",
    "without_paths",
    "write_recipe",
]
