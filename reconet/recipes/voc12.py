"""PASCAL VOC 2012, 21 classes.

The leaderboard entry is trained in three stages, chained by train.init_from: coco/reconet_…, then
reconet_… of this file, then reconet_…_trainval.
"""

from reconet.recipes.convnext import convnext_recipe
from reconet.recipes.frozen import dinov2_recipe, frozen_data, frozen_recipe
from reconet.recipes.paper import paper_recipe
from reconet.recipes.schema import Data, Recipe


def reconet_r50() -> Recipe:
    """Train the backbone of the component study on 10582 augmented images."""
    return _stage("resnet50", "trainaug", lr=0.001, epochs=80)


def reconet_r101() -> Recipe:
    """Train the main model on 10582 augmented images."""
    return _stage("resnet101", "trainaug", lr=0.001, epochs=80)


def reconet_r101_finetune() -> Recipe:
    """Fine-tune reconet_r101 on the 1464 original images: FT of the component study."""
    return _stage("resnet101", "train", lr=1e-5, epochs=50)


def reconet_r101_trainval() -> Recipe:
    """Fine-tune reconet_r101 for the leaderboard: the last stage."""
    return _stage("resnet101", "trainval", lr=1e-5, epochs=50)


def reconet_r152() -> Recipe:
    """Fine-tune coco/reconet_r152 for the larger leaderboard entry: the second stage."""
    return _stage("resnet152", "trainaug", lr=0.001, epochs=80)


def reconet_r152_trainval() -> Recipe:
    """Fine-tune reconet_r152 for the larger leaderboard entry: the last stage."""
    return _stage("resnet152", "trainval", lr=1e-5, epochs=50)


def frozen_r50() -> Recipe:
    """Train a head on cached features of a frozen ResNet-50: minutes on two cores."""
    return frozen_recipe(frozen_data("voc12", views=1, train_split="trainaug"), steps=2000)


def small_r50() -> Recipe:
    """Fine-tune a frozen_r50 (train.init_from) on small crops: hours on two cores."""
    start = frozen_r50()
    changes = {
        "data": {"views": None, "crop": (256, 256)},
        "model": {"frozen": False},
        "eval": {"scales": (1.25,)},  # chosen on images of COCO (reconet/pretrained/voc12.md)
        "optim": {"lr": 0.004, "warmup": 50},
        "train": {"steps": 1850, "channels_last": True, "save_every": 50, "eval_every": 200},
    }
    parts = {name: getattr(start, name).model_copy(update=new) for name, new in changes.items()}
    return start.model_copy(update=parts)


def frozen_dinov2_s() -> Recipe:
    """Train a head on cached features of a frozen DINOv2-S (docs/backbones.md)."""
    return dinov2_recipe("voc12", steps=2000, views=1, train_split="trainaug")


def convnext_t() -> Recipe:
    """Fine-tune ConvNeXt-T with RecoNet on 10582 augmented images (docs/backbones.md)."""
    return convnext_recipe(Data(name="voc12", train_split="trainaug"), epochs=80)


def _stage(backbone: str, split: str, *, lr: float, epochs: int) -> Recipe:
    return paper_recipe(Data(name="voc12", train_split=split), backbone, lr=lr, epochs=epochs)
