"""COCO-Stuff 10k, 171 classes."""

from reconet.recipes.paper import paper_recipe
from reconet.recipes.schema import Data, Recipe


def reconet_r101() -> Recipe:
    """Train the larger model. Its score is on the test split, which has labels."""
    data = Data(name="cocostuff", val_split="test")
    return paper_recipe(data, "resnet101", lr=0.001, epochs=180)
