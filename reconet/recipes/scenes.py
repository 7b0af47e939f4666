"""The built-in generated scenes: a small network from nothing, minutes on two CPU cores."""

from reconet.recipe import Data, Model, Optim, Recipe, Train


def reconet() -> Recipe:
    """the demo"""
    return Recipe(
        data=Data(name="scenes", base_size=160, crop=(160, 160), scale=(0.75, 1.5)),
        model=Model(backbone="resnet18", width=0.5, rank=32),
        optim=Optim(lr=0.02, head_lr_factor=1.0),
        train=Train(epochs=6, batch=16, save_every=100, eval_every=250),
    )


def fcn() -> Recipe:
    """the same without context"""
    recipe = reconet()
    model = recipe.model.model_copy(update={"context": "fcn", "rank": None})
    return recipe.model_copy(update={"model": model})


def tiny() -> Recipe:
    """seconds: for trying things out"""
    return Recipe(
        data=Data(
            name="scenes",
            base_size=64,
            crop=(64, 64),
            workers=0,
            options={"size": [64, 64], "train": 64, "val": 8},
        ),
        model=Model(backbone="resnet18", width=0.125, rank=4),
        optim=Optim(lr=0.02, head_lr_factor=1.0),
        train=Train(steps=20, batch=4, save_every=5, eval_every=10),
    )
