"""Your own images and masks. Name the folder and the classes.

reconet train folder/reconet --data mine.yaml
reconet train folder/frozen --set data.root=mine --set 'data.options.classes=["road","roof"]'
"""

from reconet.recipes.frozen import frozen_data, frozen_recipe
from reconet.recipes.schema import Data, Model, Optim, Recipe, Train


def reconet() -> Recipe:
    """Train on your own images and masks (docs/datasets.md)."""
    return Recipe(
        data=Data(name="folder"),
        model=Model(backbone="resnet50", weights="imagenet"),
        optim=Optim(lr=0.005),
        train=Train(epochs=80, batch=8, save_every=200, eval_every=200),
    )


def frozen() -> Recipe:
    """Train a head on your own images and masks in minutes, without a GPU (docs/frozen.md)."""
    # Folders are small. With 200 images 1000 steps are 80 epochs, so each of 4 views is seen 20
    # times. With 4000 images they are 4 epochs, and each view is seen once.
    return frozen_recipe(frozen_data("folder", views=4), steps=1000, eval_every=250)
