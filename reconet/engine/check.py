"""Check a recipe before a training: all that can be known without opening images or building."""

from contextlib import suppress

from reconet.data import DATASETS, complete_recipe
from reconet.data.dataset import check_known, read_options
from reconet.engine.setup import check_loss, check_views
from reconet.errors import DataError, RecipeError, pick, unknown
from reconet.models.segmenter import check_model
from reconet.recipes import validate_recipe
from reconet.recipes.schema import Recipe


def check_recipe(recipe: Recipe) -> None:
    """Raise if a name is unknown, an option is wrong, or two settings exclude each other."""
    validate_recipe(recipe.model_dump(warnings=False))  # model_copy() of Python checks nothing
    check_model(recipe.model)
    check_views(recipe)
    check_loss(recipe.loss)
    entry = pick(DATASETS, recipe.data.name, "dataset")
    with suppress(DataError):  # files of the root, such as classes.txt, may not be there yet
        recipe = complete_recipe(recipe)
    classes = entry.info.classes
    if entry.options is not None:
        options = read_options(entry.options, recipe.data.options)
        classes = getattr(options, "classes", classes)
    else:
        check_known(recipe.data.options)
    own = recipe.data.options.get("splits")
    splits = own if isinstance(own, dict) else entry.info.splits
    for split in (recipe.data.train_split, recipe.data.val_split):
        if split not in splits and not entry.own_lists:
            raise unknown(f"split of {recipe.data.name}", split, splits)
    weights = recipe.loss.class_weights
    if isinstance(weights, tuple) and classes and len(weights) != len(classes):
        raise RecipeError(f"loss.class_weights: {len(weights)} values for {len(classes)} classes.")
