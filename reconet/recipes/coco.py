"""MS-COCO with the 21 classes of VOC: the first stage of the VOC leaderboard entries."""

from reconet.recipes.paper import paper_recipe
from reconet.recipes.schema import Data, Recipe


def reconet_r101() -> Recipe:
    """Pretrain for voc12/reconet_r101."""
    return paper_recipe(Data(name="coco"), "resnet101", lr=0.004, epochs=30)


def reconet_r152() -> Recipe:
    """Pretrain for voc12/reconet_r152."""
    return paper_recipe(Data(name="coco"), "resnet152", lr=0.004, epochs=30)
