"""Generated scenes: small networks without pretrained weights, in minutes on two CPU cores."""

from reconet.recipes.overrides import apply_overrides, override
from reconet.recipes.schema import Data, Eval, Model, Optim, Recipe, Train


def reconet() -> Recipe:
    """Run the demo: minutes on two cores."""
    return Recipe(
        # Scales near 1: a crop that cuts off the horizon or the foreground cuts off the evidence.
        data=Data(
            name="scenes",
            base_size=128,
            crop=(128, 128),
            scale=(0.8, 1.1),
            options={"size": [128, 128]},
        ),
        model=Model(backbone="resnet18", width=0.375, rank=32),
        optim=Optim(lr=0.06, head_lr_factor=1.0),
        train=Train(epochs=4, batch=16, save_every=100, eval_every=250),
    )


def fcn() -> Recipe:
    """Run the demo without a context module."""
    return override(reconet(), "model.context", "fcn")


def tiny() -> Recipe:
    """Try things out in seconds."""
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


def study() -> Recipe:
    """Train one network of a study. A whole study takes a night on two cores."""
    return Recipe(
        data=Data(
            name="scenes",
            base_size=96,
            crop=(96, 96),
            scale=(0.8, 1.1),
            workers=0,  # a study trains several networks side by side, one core each
            options={"size": [96, 96], "train": 4000, "val": 200},
        ),
        model=Model(backbone="resnet18", width=0.25, rank=64),
        optim=Optim(lr=0.06, head_lr_factor=1.0),
        train=Train(steps=2000, batch=16, save_every=100, eval_every=250, deterministic=True),
        eval=Eval(mode="whole"),
    )


def study_quick() -> Recipe:
    """Train one network of a quick study, which takes a coffee break."""
    return apply_overrides(
        study(),
        [
            "data.crop=64",
            "data.base_size=64",
            "data.options.size=[64, 64]",
            "data.options.val=100",
            # A compromise: a head with a reduction learnt most at 0.3, a bare classifier at 0.1.
            "optim.lr=0.2",
            "train.steps=300",
            "train.eval_every=75",
        ],
    )
