"""What trainings on a frozen backbone have in common: heads in minutes, without a GPU."""

from reconet.recipes.schema import Data, Eval, Loss, Model, Optim, Recipe, Train

SIDE = 304  # of crops: enough for objects, and cheap to compute features of


SIDE_14 = 308  # the same for patches of 14 pixels: no padding
RESNET50 = Model(
    backbone="resnet50",
    stem="plain",
    weights="imagenet",
    output_stride=16,
    frozen=True,
    project=512,
    context="reconet_plus",
    aux=False,
)
# Its 384 channels need no projection.
DINOV2_SMALL = Model(
    backbone="hf:facebook/dinov2-small",
    weights="pretrained",
    frozen=True,
    context="reconet_plus",
    aux=False,
)


def frozen_recipe(
    data: Data, *, steps: int, eval_every: int = 1000, model: Model = RESNET50
) -> Recipe:
    """Return a recipe that trains a head on cached features, by default of a ResNet-50."""
    return Recipe(
        data=data,
        model=model,
        loss=Loss(stride=4),
        optim=Optim(lr=0.01),
        train=Train(steps=steps, batch=16, save_every=200, eval_every=eval_every, log_every=20),
        eval=Eval(mode="whole"),  # as validations are, so that the cache has the features
    )


def dinov2_recipe(
    name: str,
    *,
    steps: int,
    views: int,
    eval_every: int = 1000,
    train_split: str = "train",
    base_size: int = SIDE_14,
    crop: tuple[int, int] = (SIDE_14, SIDE_14),
) -> Recipe:
    """Return a recipe that trains a head on cached features of DINOv2-S (docs/backbones.md)."""
    data = frozen_data(name, views=views, train_split=train_split, base_size=base_size, crop=crop)
    return frozen_recipe(data, steps=steps, eval_every=eval_every, model=DINOV2_SMALL)


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
