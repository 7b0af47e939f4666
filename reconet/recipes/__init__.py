"""Describe a whole experiment by one recipe: data, model, loss, optimiser, training, evaluation.

schema.py      every setting, with its type, default and meaning
values.py      types of values: numbers within bounds, sizes, options
overrides.py   change single settings, as `--set optim.lr=0.02` does
paper.py       the recipes of the paper, for each of its datasets and backbones
public.py      recipes for public backbones, and for your own images
scenes.py      recipes for generated scenes
registry.py    find recipes by name; read and write them as JSON files
choose.py      choose settings for somebody's own images, with reasons

Other ranks, components and contexts are settings: `--set model.rank=32`, `--set model.context=fcn`.
"""

from reconet.recipes.overrides import apply_overrides, override, with_context
from reconet.recipes.registry import (
    RECIPES,
    dump_recipe,
    find_recipe,
    read_recipe,
    validate_recipe,
    without_paths,
    write_recipe,
)
from reconet.recipes.schema import (
    Augment,
    Data,
    Eval,
    Loss,
    Model,
    Optim,
    Recipe,
    Settings,
    Train,
    list_settings,
)

__all__ = [
    "RECIPES",
    "Augment",
    "Data",
    "Eval",
    "Loss",
    "Model",
    "Optim",
    "Recipe",
    "Settings",
    "Train",
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
