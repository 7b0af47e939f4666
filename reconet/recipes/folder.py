"""Your own images and masks. Name the folder and the classes.

reconet train folder/reconet --set data.root=mine --set 'data.options.classes=["road","roof"]'
"""

from reconet.recipes.schema import Data, Model, Optim, Recipe, Train


def reconet() -> Recipe:
    """Train on your own images and masks (docs/datasets.md)."""
    return Recipe(
        data=Data(name="folder"),
        model=Model(backbone="resnet50", weights="imagenet"),
        optim=Optim(lr=0.005),
        train=Train(epochs=80, batch=8, save_every=200, eval_every=200),
    )
