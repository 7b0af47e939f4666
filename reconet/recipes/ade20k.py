"""ADE20K (SceneParse150), 150 classes."""

from reconet.recipes.convnext import convnext_recipe
from reconet.recipes.frozen import dinov2_recipe, frozen_data, frozen_recipe
from reconet.recipes.paper import paper_recipe
from reconet.recipes.schema import Data, Recipe


def reconet_r50() -> Recipe:
    """Train the paper's smaller model."""
    return paper_recipe(Data(name="ade20k"), "resnet50", lr=0.01, epochs=120)


def reconet_r101() -> Recipe:
    """Train the paper's larger model."""
    return paper_recipe(Data(name="ade20k"), "resnet101", lr=0.01, epochs=120)


def frozen_r50() -> Recipe:
    """Train a head on cached features of a frozen ResNet-50, without a GPU."""
    # 4000 steps are 3 epochs of 20210 images. That is enough to learn from one view of each, and
    # one view already takes 9 GB.
    return frozen_recipe(frozen_data("ade20k", views=1), steps=4000)


def frozen_dinov2_s() -> Recipe:
    """Train a head on cached features of a frozen DINOv2-S (docs/backbones.md)."""
    return dinov2_recipe("ade20k", steps=4000, views=1)


def convnext_t() -> Recipe:
    """Fine-tune ConvNeXt-T with RecoNet (docs/backbones.md)."""
    return convnext_recipe(Data(name="ade20k"), epochs=120)
