"""ADE20K (SceneParse150), 150 classes."""

from reconet.recipes.paper import paper_recipe
from reconet.recipes.schema import Data, Recipe


def reconet_r50() -> Recipe:
    """Train the paper's smaller model."""
    return paper_recipe(Data(name="ade20k"), "resnet50", lr=0.01, epochs=120)


def reconet_r101() -> Recipe:
    """Train the paper's larger model."""
    return paper_recipe(Data(name="ade20k"), "resnet101", lr=0.01, epochs=120)
