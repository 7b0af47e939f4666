"""What trainings of a whole ConvNeXt have in common."""

from reconet.recipes.schema import Data, Eval, Model, Optim, Recipe, Train


def convnext_recipe(data: Data, *, epochs: int, batch: int = 16) -> Recipe:
    """Return a recipe that fine-tunes ConvNeXt-T by AdamW, with warm-up and layer-wise decay.

    The rates are usual ones for ConvNeXt, and were not tuned.
    """
    return Recipe(
        data=data,
        model=Model(
            backbone="hf:facebook/convnext-tiny-224", weights="pretrained", output_stride=16
        ),
        optim=Optim(
            kind="adamw",
            lr=1e-4,
            power=1.0,
            warmup=1500,
            layer_decay=0.95,
            head_lr_factor=1.0,
            weight_decay=0.05,
        ),
        train=Train(epochs=epochs, batch=batch),
        eval=Eval(mode="slide"),
    )
