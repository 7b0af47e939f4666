"""PASCAL-Context, 59 classes and background."""

from reconet.recipes.paper import paper_recipe
from reconet.recipes.schema import Data, Recipe


def reconet_r101() -> Recipe:
    """60 classes; pcontext59 ignores the background"""
    return paper_recipe(Data(name="pcontext"), "resnet101", lr=0.001, epochs=80)
