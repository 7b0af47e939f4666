"""What all trainings of the paper have in common."""

from reconet.recipes.schema import Data, Eval, Model, Optim, Recipe, Train


def paper_recipe(
    data: Data,
    backbone: str,
    *,
    lr: float,
    epochs: int | None = None,
    steps: int | None = None,
    batch: int = 16,
    weight_decay: float = 1e-4,
) -> Recipe:
    """Return a recipe with SGD, momentum 0.9, poly decay and an ImageNet backbone.

    The crop is 512 unless `data` says otherwise.
    """
    return Recipe(
        data=data,
        model=Model(backbone=backbone, weights="imagenet"),
        optim=Optim(lr=lr, weight_decay=weight_decay),
        train=Train(epochs=epochs, steps=steps, batch=batch),
        eval=Eval(mode="slide"),
    )
