"""Generated scenes: small networks without pretrained weights, in minutes on two CPU cores."""

from pydantic import JsonValue

from reconet.recipes.paper import NamedRecipe
from reconet.recipes.schema import Data, Eval, Model, Optim, Recipe, Train


def demo(context: str = "reconet") -> Recipe:
    """Return the recipe of the demo."""
    return Recipe(
        # Scales near 1: a crop that cuts off the horizon or the foreground cuts off the evidence.
        data=Data(
            name="scenes",
            base_size=128,
            crop=(128, 128),
            scale=(0.8, 1.1),
            options={"size": [128, 128]},
        ),
        model=Model(backbone="resnet18", width=0.375, rank=32, context=context),
        optim=Optim(lr=0.06, head_lr_factor=1.0),
        train=Train(epochs=4, batch=16, save_every=100, eval_every=250),
    )


def tiny() -> Recipe:
    """Return the smallest recipe."""
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


def study(
    side: int = 96, val: int = 200, lr: float = 0.06, steps: int = 2000, eval_every: int = 250
) -> Recipe:
    """Return the recipe of one network of a study."""
    options: dict[str, JsonValue] = {"size": [side, side], "train": 4000, "val": val}
    return Recipe(
        data=Data(
            name="scenes",
            base_size=side,
            crop=(side, side),
            scale=(0.8, 1.1),
            workers=0,  # a study trains several networks side by side, one core each
            options=options,
        ),
        model=Model(backbone="resnet18", width=0.25, rank=64),
        optim=Optim(lr=lr, head_lr_factor=1.0),
        train=Train(
            steps=steps, batch=16, save_every=100, eval_every=eval_every, deterministic=True
        ),
        eval=Eval(mode="whole"),
    )


def quick_study() -> Recipe:
    """Return the recipe of one network of a quick study."""
    # A compromise: a head with a reduction learnt most at a rate of 0.3, a bare classifier at 0.1.
    return study(side=64, val=100, lr=0.2, steps=300, eval_every=75)


SCENES = {
    "scenes/fcn": NamedRecipe("Run the demo without a context module.", lambda: demo("fcn")),
    "scenes/reconet": NamedRecipe("Run the demo: minutes on two cores.", demo),
    "scenes/study": NamedRecipe(
        "Train one network of a study. A whole study takes a night on two cores.", study
    ),
    "scenes/study_quick": NamedRecipe(
        "Train one network of a quick study, which takes a coffee break.", quick_study
    ),
    "scenes/tiny": NamedRecipe("Try things out in seconds.", tiny),
}
