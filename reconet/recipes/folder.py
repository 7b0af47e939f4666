"""Your own images: say where they are and what the classes are called.

reconet train folder/reconet --set data.root=mine --set 'data.options.classes=["road","roof"]'
"""

from reconet.recipes.schema import Data, Model, Optim, Recipe, Train


def reconet() -> Recipe:
    """your own images and masks; see docs/datasets.md"""
    return Recipe(
        data=Data(name="folder"),
        model=Model(backbone="resnet50", weights="imagenet"),
        optim=Optim(lr=0.005),
        train=Train(epochs=80, batch=8, save_every=200, eval_every=200),
    )
