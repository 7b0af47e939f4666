"""What trainings on a frozen backbone have in common: heads in minutes, without a GPU."""

from reconet.recipes.schema import Data, Eval, Loss, Model, Optim, Recipe, Train

SIDE = 304  # of crops: enough for objects, and cheap to compute features of


def frozen_recipe(
    data: Data, *, steps: int, eval_every: int = 1000, context: str = "reconet_plus"
) -> Recipe:
    """Return a recipe that trains a head on cached features of an ImageNet ResNet-50."""
    return Recipe(
        data=data,
        model=Model(
            backbone="resnet50",
            stem="plain",
            weights="imagenet",
            output_stride=16,
            frozen=True,
            project=512,
            context=context,
            aux=False,
        ),
        loss=Loss(stride=4),
        optim=Optim(lr=0.01),
        train=Train(steps=steps, batch=16, save_every=200, eval_every=eval_every, log_every=20),
        eval=Eval(mode="whole"),  # as validations are, so that the cache has the features
    )


def frozen_data(
    name: str,
    *,
    views: int,
    train_split: str = "train",
    base_size: int = SIDE,
    crop: tuple[int, int] = (SIDE, SIDE),
) -> Data:
    """Return data settings with `views` cached views of each image.

    More views than epochs would never be seen. Fewer repeat themselves, which matters where there
    are few images. Each view costs the time of the backbone once, and room on the disk.
    """
    return Data(
        name=name,
        train_split=train_split,
        base_size=base_size,
        crop=crop,
        scale=(0.75, 1.5),
        views=views,
    )
