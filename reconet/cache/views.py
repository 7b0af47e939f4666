"""Say what each entry of a cache is made from: augmented views for training, whole images to score.

A view is drawn once, as a function of (seed, content of the image, view). So splits that share
images share views, and neither their order nor their number changes one. Labels have an identity
of their own: a corrected mask changes no feature.
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from reconet.data.dataset import Dataset, identify_image, identify_label
from reconet.data.order import random_stream
from reconet.data.transforms import Augmentation, augment
from reconet.inference.windows import whole_image
from reconet.types import Label

VIEW = 2  # what the stream is for, beside ORDER and AUGMENT of data/order.py


@dataclass(frozen=True, kw_only=True)
class TrainingViews:
    """`views` augmented crops of each image. The views of one image follow one another."""

    dataset: Dataset
    augmentation: Augmentation
    seed: int
    views: int
    labels: bool = False  # the entries are labels, not features

    def __len__(self) -> int:
        return len(self.dataset) * self.views

    def identity(self, index: int) -> str:
        """Tell an entry from others: its image, its view, and its labels if it holds them."""
        image = index // self.views
        labels = f" labels {identify_label(self.dataset, image)}" if self.labels else ""
        return self._view(index) + labels

    def _view(self, index: int) -> str:
        image, view = divmod(index, self.views)
        return f"{identify_image(self.dataset, image)} view {view}"

    def __getitem__(self, index: int) -> tuple[Tensor, Label]:
        """Draw a view: image_bchw with one image, and its labels."""
        digest = blake2b(self._view(index).encode(), digest_size=8).digest()
        rng = random_stream(VIEW, self.seed, int.from_bytes(digest, "little"))
        crop = augment(self.dataset[index // self.views], self.augmentation, rng)
        return torch.from_numpy(crop.image_hwc).permute(2, 0, 1)[None], crop.label_hw


@dataclass(frozen=True, kw_only=True)
class WholeImages:
    """Each image once and whole, its long side at base_size, as validations see it."""

    dataset: Dataset
    base_size: int

    def __len__(self) -> int:
        return len(self.dataset)

    def identity(self, index: int) -> str:
        """Tell an entry from others by its image."""
        return identify_image(self.dataset, index)

    def __getitem__(self, index: int) -> tuple[Tensor, Label]:
        """Scale an image: image_bchw with one image. The labels stay with the dataset."""
        image_bchw = whole_image(self.dataset[index].image_hwc, self.base_size)
        return image_bchw, np.empty((0, 0), np.uint8)
