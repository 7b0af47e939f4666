"""Cityscapes, 19 classes: crops of 512 x 1024, batch 8."""

from reconet.recipes.paper import paper_recipe
from reconet.recipes.schema import Data, Recipe


def reconet_r50() -> Recipe:
    """Train the backbone of the component study in the appendix."""
    return _recipe("resnet50", "train", steps=40_000)


def reconet_r101() -> Recipe:
    """Train on train, for a score on val."""
    return _recipe("resnet101", "train", steps=40_000)


def reconet_r101_test() -> Recipe:
    """Train longer, on train and val together, for the test server."""
    return _recipe("resnet101", "trainval", steps=100_000)


def _recipe(backbone: str, split: str, *, steps: int) -> Recipe:
    data = Data(name="cityscapes", train_split=split, base_size=2048, crop=(512, 1024))
    return paper_recipe(data, backbone, lr=0.01, steps=steps, batch=8, weight_decay=5e-4)
