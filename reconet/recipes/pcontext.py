"""PASCAL-Context, 59 classes and background."""

from reconet.recipes.paper import paper_recipe
from reconet.recipes.schema import Data, Recipe


def reconet_r101() -> Recipe:
    """Train on all 60 classes. For 59 without background, set data.name=pcontext59."""
    return paper_recipe(Data(name="pcontext"), "resnet101", lr=0.001, epochs=80)
