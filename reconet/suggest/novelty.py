"""Tell how different images are from those that a network was trained on.

An image becomes the mean of its features: of the map that the network's context reads, over all
places. Its distance is that to the nearest training image, divided by what is usual among the
training images themselves. So 1 is as different as they are from one another.

Dimensions: n images, m training images, d features.
"""

import torch
from torch import Tensor

from reconet.inference import whole_image
from reconet.models.segmenter import Segmenter
from reconet.types import Image

MOST = 1000  # training images to compare with, evenly spaced


@torch.no_grad()
def mean_features(model: Segmenter, image_hwc: Image, base_size: int) -> Tensor:
    """Return the features of an image, averaged over its places, on the CPU."""
    image_bchw = whole_image(image_hwc, base_size).to(model.mean_c11.device)
    feature_d: Tensor = model.trunk(image_bchw).c4.float().mean((0, 2, 3))
    return feature_d.cpu()


def distances(new_nd: Tensor, train_md: Tensor) -> Tensor:
    """Return the distance of each image to its nearest training image, by what is usual there."""
    nearest_n = torch.cdist(new_nd, train_md).amin(1)
    between_mm = torch.cdist(train_md, train_md).fill_diagonal_(torch.inf)
    usual = between_mm.amin(1).median()
    return nearest_n / usual if torch.isfinite(usual) and usual > 0 else nearest_n
