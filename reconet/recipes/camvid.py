"""CamVid, 11 classes. The paper has no training on it."""

from reconet.recipes.frozen import dinov2_recipe, frozen_data, frozen_recipe
from reconet.recipes.schema import Recipe


def frozen_r50() -> Recipe:
    """Train a head on cached features of a frozen ResNet-50: minutes on two cores."""
    # Images at their own size, since poles and signs are thin. 1000 steps are 45 epochs of 367
    # images: with one view the head would see the same 367 crops 45 times.
    data = frozen_data("camvid", views=4, base_size=480, crop=(360, 480))
    return frozen_recipe(data, steps=1000, eval_every=250)


def frozen_dinov2_s() -> Recipe:
    """Train a head on cached features of a frozen DINOv2-S (docs/backbones.md)."""
    # A little larger than their own size: whole patches of 14 pixels.
    return dinov2_recipe(
        "camvid", steps=1000, views=4, eval_every=250, base_size=490, crop=(378, 490)
    )
