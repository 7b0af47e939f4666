"""Your own images and masks. Name the folder and the classes.

reconet train folder/reconet --data mine.yaml
reconet train folder/frozen --set data.root=mine --set 'data.options.classes=["road","roof"]'
"""

from pydantic import JsonValue

from reconet.recipes.convnext import convnext_recipe
from reconet.recipes.frozen import dinov2_recipe, frozen_data, frozen_recipe
from reconet.recipes.schema import Augment, Data, Eval, Model, Optim, Recipe, Train

# Photos of one thing differ in light, camera and angle. These values keep them believable.
MODEST = Augment(
    brightness=0.2, contrast=0.2, saturation=0.2, hue=0.02, blur=1.0, jpeg=60, rotation=5
)

# Options of a dataset that nobody has trained on yet. Recipes of older runs lack them, and keep
# the split that they were trained with.
NEW_OPTIONS: dict[str, JsonValue] = {"val_choice": "classes"}


def reconet() -> Recipe:
    """Train on your own images and masks (docs/datasets.md)."""
    return Recipe(
        data=Data(name="folder", augment=MODEST, options=dict(NEW_OPTIONS)),
        model=Model(backbone="resnet50", weights="imagenet"),
        optim=Optim(lr=0.005),
        train=Train(epochs=80, batch=8, save_every=200, eval_every=200),
    )


def frozen() -> Recipe:
    """Train a head on your own images and masks in minutes, without a GPU (docs/frozen.md)."""
    # Folders are small. With 200 images 1000 steps are 80 epochs, so each of 4 views is seen 20
    # times. With 4000 images they are 4 epochs, and each view is seen once.
    return _own(frozen_recipe(frozen_data("folder", views=4), steps=1000, eval_every=250))


def frozen_dinov2_s() -> Recipe:
    """Train a head on cached features of a frozen DINOv2-S (docs/backbones.md)."""
    return _own(dinov2_recipe("folder", steps=1000, views=4, eval_every=250))


def convnext_t() -> Recipe:
    """Fine-tune ConvNeXt-T on your own images and masks (docs/backbones.md)."""
    recipe = convnext_recipe(Data(name="folder"), epochs=80, batch=8)
    optim = recipe.optim.model_copy(update={"warmup": 100})  # folders are small
    train = recipe.train.model_copy(update={"save_every": 200, "eval_every": 200})
    return _own(recipe.model_copy(update={"optim": optim, "train": train, "eval": Eval()}))


def _own(recipe: Recipe) -> Recipe:
    """Add the augmentation and the options of new folders."""
    own = {"augment": MODEST, "options": dict(NEW_OPTIONS)}
    return recipe.model_copy(update={"data": recipe.data.model_copy(update=own)})
