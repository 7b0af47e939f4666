"""Your own images and masks. Name the folder and the classes.

reconet train folder/reconet --data mine.yaml
reconet train folder/frozen --set data.root=mine --set 'data.options.classes=["road","roof"]'
"""

from pydantic import JsonValue

from reconet.recipes.frozen import frozen_data, frozen_recipe
from reconet.recipes.schema import Augment, Data, Model, Optim, Recipe, Train

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
    own = {"augment": MODEST, "options": dict(NEW_OPTIONS)}
    data = frozen_data("folder", views=4).model_copy(update=own)
    return frozen_recipe(data, steps=1000, eval_every=250)
