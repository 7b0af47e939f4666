"""List all recipes by name, `<dataset>/<function>`, and find one.

To add a recipe, write a function that returns it and add one line to RECIPES. The first line of
its docstring is what `reconet recipes` shows.
"""

from collections.abc import Callable
from pathlib import Path

from reconet.errors import RecipeError, pick
from reconet.recipes import (
    ade20k,
    camvid,
    cityscapes,
    coco,
    cocostuff,
    folder,
    pcontext,
    scenes,
    siftflow,
    voc12,
)
from reconet.recipes.schema import Recipe
from reconet.recipes.storage import read_recipe
from reconet.system.run_files import RECIPE

RECIPES: dict[str, Callable[[], Recipe]] = {
    "ade20k/convnext_t": ade20k.convnext_t,
    "ade20k/frozen_dinov2_s": ade20k.frozen_dinov2_s,
    "ade20k/frozen_r50": ade20k.frozen_r50,
    "ade20k/reconet_r50": ade20k.reconet_r50,
    "ade20k/reconet_r101": ade20k.reconet_r101,
    "camvid/frozen_dinov2_s": camvid.frozen_dinov2_s,
    "camvid/frozen_r50": camvid.frozen_r50,
    "cityscapes/reconet_r50": cityscapes.reconet_r50,
    "cityscapes/reconet_r101": cityscapes.reconet_r101,
    "cityscapes/reconet_r101_test": cityscapes.reconet_r101_test,
    "coco/reconet_r101": coco.reconet_r101,
    "coco/reconet_r152": coco.reconet_r152,
    "cocostuff/reconet_r101": cocostuff.reconet_r101,
    "folder/convnext_t": folder.convnext_t,
    "folder/frozen": folder.frozen,
    "folder/frozen_dinov2_s": folder.frozen_dinov2_s,
    "folder/reconet": folder.reconet,
    "pcontext/reconet_r101": pcontext.reconet_r101,
    "scenes/fcn": scenes.fcn,
    "scenes/reconet": scenes.reconet,
    "scenes/study": scenes.study,
    "scenes/study_quick": scenes.study_quick,
    "scenes/tiny": scenes.tiny,
    "siftflow/reconet_r101": siftflow.reconet_r101,
    "voc12/convnext_t": voc12.convnext_t,
    "voc12/frozen_dinov2_s": voc12.frozen_dinov2_s,
    "voc12/frozen_r50": voc12.frozen_r50,
    "voc12/reconet_r50": voc12.reconet_r50,
    "voc12/reconet_r101": voc12.reconet_r101,
    "voc12/reconet_r101_finetune": voc12.reconet_r101_finetune,
    "voc12/reconet_r101_trainval": voc12.reconet_r101_trainval,
    "voc12/reconet_r152": voc12.reconet_r152,
    "voc12/reconet_r152_trainval": voc12.reconet_r152_trainval,
    "voc12/small_r50": voc12.small_r50,
}


def find_recipe(name: str) -> Recipe:
    """Find a recipe by its name, in a JSON file, or in a run directory."""
    path = Path(name)
    if path.is_dir() and (path / RECIPE).is_file():
        return read_recipe(path / RECIPE)
    if path.suffix == ".json" or path.is_file():
        if not path.is_file():
            raise RecipeError(f"there is no recipe file {name}.")
        return read_recipe(path)
    return pick(RECIPES, name, "recipe")()
