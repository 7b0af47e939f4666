"""SIFT-Flow, 33 classes."""

from reconet.recipes.paper import paper_recipe
from reconet.recipes.schema import Data, Recipe


def reconet_r101() -> Recipe:
    """Train with a ResNet-101. The paper does not name its backbone here."""
    data = Data(name="siftflow", val_split="test")
    return paper_recipe(data, "resnet101", lr=0.0025, epochs=80)
