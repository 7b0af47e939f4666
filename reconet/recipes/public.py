"""Trainings beyond the paper, on public backbones and on your own images.

frozen_…    a head on cached features of a frozen backbone: minutes, without a GPU
convnext_t  a whole ConvNeXt
folder/…    your own images and masks, `reconet train folder/reconet --data mine.yaml`
"""

from functools import partial

from pydantic import JsonValue

from reconet.recipes.paper import NamedRecipe
from reconet.recipes.schema import Augment, Data, Eval, Loss, Model, Optim, Recipe, Train

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
# Photos of one thing differ in light, camera and angle. These values keep them believable.
MODEST = Augment(
    brightness=0.2, contrast=0.2, saturation=0.2, hue=0.02, blur=1.0, jpeg=60, rotation=5
)
# Options of a dataset that nobody has trained on yet. Recipes of older runs lack them, and keep
# the split that they were trained with.
NEW_OPTIONS: dict[str, JsonValue] = {"val_choice": "classes"}


def frozen_recipe(
    dataset: str,
    *,
    steps: int,
    views: int,
    model: Model = RESNET50,
    eval_every: int = 1000,
    train: str = "train",
    base_size: int | None = None,
    crop: tuple[int, int] | None = None,
) -> Recipe:
    """Return a recipe that trains a head on cached features of `views` crops of each image.

    More views than epochs would never be seen. Fewer repeat themselves, which matters where there
    are few images. Each view costs the time of the backbone once, and room on the disk.
    """
    side = SIDE if model is RESNET50 else SIDE_14
    return Recipe(
        data=Data(
            name=dataset,
            train_split=train,
            base_size=base_size or side,
            crop=crop or (side, side),
            scale=(0.75, 1.5),
            views=views,
        ),
        model=model,
        loss=Loss(stride=4),
        optim=Optim(lr=0.01),
        train=Train(steps=steps, batch=16, save_every=200, eval_every=eval_every, log_every=20),
        eval=Eval(mode="whole"),  # as validations are, so that the cache has the features
    )


def convnext_recipe(
    dataset: str, *, epochs: int, batch: int = 16, warmup: int = 1500, train: str = "train"
) -> Recipe:
    """Return a recipe that fine-tunes ConvNeXt-T by AdamW, with warm-up and layer-wise decay.

    The rates are usual ones for ConvNeXt, and were not tuned.
    """
    return Recipe(
        data=Data(name=dataset, train_split=train),
        model=Model(
            backbone="hf:facebook/convnext-tiny-224", weights="pretrained", output_stride=16
        ),
        optim=Optim(
            kind="adamw",
            lr=1e-4,
            power=1.0,
            warmup=warmup,
            layer_decay=0.95,
            head_lr_factor=1.0,
            weight_decay=0.05,
        ),
        train=Train(epochs=epochs, batch=batch),
        eval=Eval(mode="slide"),
    )


def small_voc12() -> Recipe:
    """Return the frozen recipe of VOC, for all layers on small crops."""
    start = _voc12()
    changes = {
        "data": {"views": None, "crop": (256, 256)},
        "model": {"frozen": False},
        "eval": {"scales": (1.25,)},  # chosen on images of COCO (reconet/pretrained/voc12.md)
        "optim": {"lr": 0.004, "warmup": 50},
        "train": {"steps": 1850, "channels_last": True, "save_every": 50, "eval_every": 200},
    }
    parts = {name: getattr(start, name).model_copy(update=new) for name, new in changes.items()}
    return start.model_copy(update=parts)


def folder() -> Recipe:
    """Return the recipe for a whole network on your own images."""
    return own(
        Recipe(
            data=Data(name="folder"),
            model=Model(backbone="resnet50", weights="imagenet"),
            optim=Optim(lr=0.005),
            train=Train(epochs=80, batch=8, save_every=200, eval_every=200),
        )
    )


def folder_convnext() -> Recipe:
    """Return the recipe of ConvNeXt for folders, which are small."""
    recipe = convnext_recipe("folder", epochs=80, batch=8, warmup=100)
    train = recipe.train.model_copy(update={"save_every": 200, "eval_every": 200})
    return own(recipe.model_copy(update={"train": train, "eval": Eval()}))


def folder_frozen(model: Model) -> Recipe:
    """Return the recipe of a frozen backbone for folders, which are small.

    With 200 images 1000 steps are 80 epochs, so each of 4 views is seen 20 times. With 4000 images
    they are 4 epochs, and each view is seen once.
    """
    return own(frozen_recipe("folder", steps=1000, views=4, eval_every=250, model=model))


def own(recipe: Recipe) -> Recipe:
    """Add the augmentation and the options of new folders."""
    added = {"augment": MODEST, "options": dict(NEW_OPTIONS)}
    return recipe.model_copy(update={"data": recipe.data.model_copy(update=added)})


FROZEN_DINOV2 = "Train a head on cached features of a frozen DINOv2-S (docs/backbones.md)."
# 4000 steps are 3 epochs of 20210 images. That is enough to learn from one view of each, and one
# view already takes 9 GB.
_ade20k = partial(frozen_recipe, "ade20k", steps=4000, views=1)
# Images at their own size, since poles and signs are thin. 1000 steps are 45 epochs of 367 images:
# with one view the head would see the same 367 crops 45 times.
_camvid = partial(frozen_recipe, "camvid", steps=1000, views=4, eval_every=250)
_voc12 = partial(frozen_recipe, "voc12", steps=2000, views=1, train="trainaug")

PUBLIC = {
    "ade20k/convnext_t": NamedRecipe(
        "Fine-tune ConvNeXt-T with RecoNet (docs/backbones.md).",
        partial(convnext_recipe, "ade20k", epochs=120),
    ),
    "ade20k/frozen_dinov2_s": NamedRecipe(FROZEN_DINOV2, partial(_ade20k, model=DINOV2_SMALL)),
    "ade20k/frozen_r50": NamedRecipe(
        "Train a head on cached features of a frozen ResNet-50, without a GPU.",
        _ade20k,
    ),
    "camvid/frozen_dinov2_s": NamedRecipe(  # a little larger than their own size: whole patches
        FROZEN_DINOV2, partial(_camvid, model=DINOV2_SMALL, base_size=490, crop=(378, 490))
    ),
    "camvid/frozen_r50": NamedRecipe(
        "Train a head on cached features of a frozen ResNet-50: minutes on two cores.",
        partial(_camvid, base_size=480, crop=(360, 480)),
    ),
    "folder/convnext_t": NamedRecipe(
        "Fine-tune ConvNeXt-T on your own images and masks (docs/backbones.md).", folder_convnext
    ),
    "folder/frozen": NamedRecipe(
        "Train a head on your own images and masks in minutes, without a GPU (docs/frozen.md).",
        partial(folder_frozen, RESNET50),
    ),
    "folder/frozen_dinov2_s": NamedRecipe(FROZEN_DINOV2, partial(folder_frozen, DINOV2_SMALL)),
    "folder/reconet": NamedRecipe("Train on your own images and masks (docs/datasets.md).", folder),
    "voc12/convnext_t": NamedRecipe(
        "Fine-tune ConvNeXt-T with RecoNet on 10582 augmented images (docs/backbones.md).",
        partial(convnext_recipe, "voc12", epochs=80, train="trainaug"),
    ),
    "voc12/frozen_dinov2_s": NamedRecipe(FROZEN_DINOV2, partial(_voc12, model=DINOV2_SMALL)),
    "voc12/frozen_r50": NamedRecipe(
        "Train a head on cached features of a frozen ResNet-50: minutes on two cores.",
        _voc12,
    ),
    "voc12/small_r50": NamedRecipe(
        "Fine-tune a frozen_r50 (train.init_from) on small crops: hours on two cores.", small_voc12
    ),
}
