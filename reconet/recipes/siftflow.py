"""SIFT-Flow, 33 classes."""

from reconet.recipes.paper import paper_recipe
from reconet.recipes.schema import Data, Recipe


def reconet_r101() -> Recipe:
    """the paper does not print its backbone; this one is assumed"""
    data = Data(name="siftflow", val_split="test")
    return paper_recipe(data, "resnet101", lr=0.0025, epochs=80)
