"""PASCAL VOC 2012, 21 classes. The leaderboard entry is three stages, chained by train.init_from:
coco/reconet_…, then this file's reconet_…, then reconet_…_trainval.
"""

from reconet.recipes.paper import paper_recipe
from reconet.recipes.schema import Data, Recipe


def reconet_r50() -> Recipe:
    """backbone of the component study; 10582 augmented images"""
    return _stage("resnet50", "trainaug", lr=0.001, epochs=80)


def reconet_r101() -> Recipe:
    """the main model; 10582 augmented images"""
    return _stage("resnet101", "trainaug", lr=0.001, epochs=80)


def reconet_r101_finetune() -> Recipe:
    """FT of the component study: on from reconet_r101, with the 1464 original images"""
    return _stage("resnet101", "train", lr=1e-5, epochs=50)


def reconet_r101_trainval() -> Recipe:
    """last stage of the leaderboard entry: on from reconet_r101"""
    return _stage("resnet101", "trainval", lr=1e-5, epochs=50)


def reconet_r152() -> Recipe:
    """second stage of the larger leaderboard entry: on from coco/reconet_r152"""
    return _stage("resnet152", "trainaug", lr=0.001, epochs=80)


def reconet_r152_trainval() -> Recipe:
    """last stage of the larger leaderboard entry: on from reconet_r152"""
    return _stage("resnet152", "trainval", lr=1e-5, epochs=50)


def _stage(backbone: str, split: str, *, lr: float, epochs: int) -> Recipe:
    return paper_recipe(Data(name="voc12", train_split=split), backbone, lr=lr, epochs=epochs)
