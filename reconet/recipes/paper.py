"""The trainings of the paper, on all of its datasets and backbones.

The leaderboard entry for VOC is trained in three stages, chained by train.init_from:
coco/reconet_…, voc12/reconet_…, voc12/reconet_…_trainval.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from reconet.recipes.schema import Data, Eval, Model, Optim, Recipe, Train


class NamedRecipe(NamedTuple):
    """A line of the table: what a recipe is for, and the function that makes it."""

    about: str
    make: Callable[[], Recipe]


def paper_recipe(
    dataset: str,
    backbone: str,
    *,
    lr: float,
    epochs: int | None = None,
    train: str = "train",
    val: str = "val",
) -> Recipe:
    """Return a recipe with SGD, momentum 0.9, poly decay, an ImageNet backbone and crops of 512."""
    return Recipe(
        data=Data(name=dataset, train_split=train, val_split=val),
        model=Model(backbone=backbone, weights="imagenet"),
        optim=Optim(lr=lr),
        train=Train(epochs=epochs, batch=16),
        eval=Eval(mode="slide"),
    )


def cityscapes(backbone: str, *, steps: int, train: str = "train") -> Recipe:
    """Return the same with wide crops, batch 8 and a larger weight decay."""
    return Recipe(
        data=Data(name="cityscapes", train_split=train, base_size=2048, crop=(512, 1024)),
        model=Model(backbone=backbone, weights="imagenet"),
        optim=Optim(lr=0.01, weight_decay=5e-4),
        train=Train(steps=steps, batch=8),
        eval=Eval(mode="slide"),
    )


_voc12 = partial(paper_recipe, "voc12")

PAPER = {
    "ade20k/reconet_r50": NamedRecipe(
        "Train the paper's smaller model.",
        partial(paper_recipe, "ade20k", "resnet50", lr=0.01, epochs=120),
    ),
    "ade20k/reconet_r101": NamedRecipe(
        "Train the paper's larger model.",
        partial(paper_recipe, "ade20k", "resnet101", lr=0.01, epochs=120),
    ),
    "cityscapes/reconet_r50": NamedRecipe(
        "Train the backbone of the component study in the appendix.",
        partial(cityscapes, "resnet50", steps=40_000),
    ),
    "cityscapes/reconet_r101": NamedRecipe(
        "Train on train, for a score on val.", partial(cityscapes, "resnet101", steps=40_000)
    ),
    "cityscapes/reconet_r101_test": NamedRecipe(
        "Train longer, on train and val together, for the test server.",
        partial(cityscapes, "resnet101", steps=100_000, train="trainval"),
    ),
    "coco/reconet_r101": NamedRecipe(
        "Pretrain for voc12/reconet_r101.",
        partial(paper_recipe, "coco", "resnet101", lr=0.004, epochs=30),
    ),
    "coco/reconet_r152": NamedRecipe(
        "Pretrain for voc12/reconet_r152.",
        partial(paper_recipe, "coco", "resnet152", lr=0.004, epochs=30),
    ),
    "cocostuff/reconet_r101": NamedRecipe(
        "Train the larger model. Its score is on the test split, which has labels.",
        partial(paper_recipe, "cocostuff", "resnet101", lr=0.001, epochs=180, val="test"),
    ),
    "pcontext/reconet_r101": NamedRecipe(
        "Train on all 60 classes. For 59 without background, set data.name=pcontext59.",
        partial(paper_recipe, "pcontext", "resnet101", lr=0.001, epochs=80),
    ),
    "siftflow/reconet_r101": NamedRecipe(
        "Train with a ResNet-101. The paper does not name its backbone here.",
        partial(paper_recipe, "siftflow", "resnet101", lr=0.0025, epochs=80, val="test"),
    ),
    "voc12/reconet_r50": NamedRecipe(
        "Train the backbone of the component study on 10582 augmented images.",
        partial(_voc12, "resnet50", lr=0.001, epochs=80, train="trainaug"),
    ),
    "voc12/reconet_r101": NamedRecipe(
        "Train the main model on 10582 augmented images.",
        partial(_voc12, "resnet101", lr=0.001, epochs=80, train="trainaug"),
    ),
    "voc12/reconet_r101_finetune": NamedRecipe(
        "Fine-tune reconet_r101 on the 1464 original images: FT of the component study.",
        partial(_voc12, "resnet101", lr=1e-5, epochs=50),
    ),
    "voc12/reconet_r101_trainval": NamedRecipe(
        "Fine-tune reconet_r101 for the leaderboard: the last stage.",
        partial(_voc12, "resnet101", lr=1e-5, epochs=50, train="trainval"),
    ),
    "voc12/reconet_r152": NamedRecipe(
        "Fine-tune coco/reconet_r152 for the larger leaderboard entry: the second stage.",
        partial(_voc12, "resnet152", lr=0.001, epochs=80, train="trainaug"),
    ),
    "voc12/reconet_r152_trainval": NamedRecipe(
        "Fine-tune reconet_r152 for the larger leaderboard entry: the last stage.",
        partial(_voc12, "resnet152", lr=1e-5, epochs=50, train="trainval"),
    ),
}
