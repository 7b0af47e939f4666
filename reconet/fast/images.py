"""Find images to calibrate, to time and to compare on."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from reconet.data import DATASETS, open_dataset, open_split
from reconet.data.dataset import Dataset, evenly_spaced, has_labels
from reconet.data.images.read import read_image
from reconet.data.scenes.dataset import LONGEST_SIDE
from reconet.errors import DataError
from reconet.models.network_info import NetworkInfo
from reconet.recipes.schema import Data
from reconet.system.readable import counted
from reconet.types import Image, Label

MOST = 64  # images: half of them to calibrate by, half to compare on
MOST_PIXELS = 2**22  # of an image at hand


@dataclass(frozen=True, kw_only=True)
class ProbeImage:
    """An image, with its true labels if they are known."""

    image_hwc: Image
    label_hw: Label | None = None


@dataclass(frozen=True, kw_only=True)
class ProbeImages:
    """Images for one measurement. Generated ones are only good for fp32, which rounds nothing."""

    origin: str  # "of voc12 val"
    calibrated: Sequence[Image]
    compared: Sequence[ProbeImage]
    is_generated: bool = False
    stretched: int = 0  # of the compared images: copies at other proportions

    def __len__(self) -> int:
        return len(self.compared)

    @property
    def description(self) -> str:
        return f"{counted(len(self.compared) - self.stretched, 'image')} {self.origin}"


def find_probe_images(
    info: NetworkInfo, paths: Sequence[Path], data: Data | None = None
) -> ProbeImages:
    """Take the validation images of the network, else the images at hand, else generated ones."""
    dataset = _open_val(data or info.recipe.data)
    if dataset is not None:
        labelled = has_labels(dataset) and dataset.info.classes == info.classes
        samples = [dataset[i] for i in evenly_spaced(len(dataset), MOST)]
        images = [
            ProbeImage(image_hwc=one.image_hwc, label_hw=one.label_hw if labelled else None)
            for one in samples
        ]
        return _divide(images, f"of {dataset.info.name} {dataset.split}")
    chosen = [paths[i] for i in evenly_spaced(len(paths), MOST)]
    images = [image for path in chosen for image in _read(path)]
    if images:
        return _divide(images, "at hand")
    return _generated(info)


def _open_val(data: Data) -> Dataset | None:
    """Open the validation images of a network, if they are on this machine."""
    if data.name not in DATASETS:
        return None
    try:
        dataset = open_split(data, data.val_split)
    except DataError:
        return None
    return dataset if len(dataset) else None


def _read(path: Path) -> list[ProbeImage]:
    """Read an image. One that is broken is left out: predicting it will say so."""
    try:
        image_hwc = read_image(path)
    except (DataError, OSError):
        return []
    zoom = (MOST_PIXELS / (image_hwc.shape[0] * image_hwc.shape[1])) ** 0.5
    if zoom < 1:  # so that some dozen photos fit into memory
        small = cv2.resize(image_hwc, None, fx=zoom, fy=zoom, interpolation=cv2.INTER_AREA)
        image_hwc = np.asarray(small, np.uint8)
    return [ProbeImage(image_hwc=image_hwc)]


def _divide(images: Sequence[ProbeImage], origin: str) -> ProbeImages:
    """Compare on every other image and calibrate by the rest. A single one serves for both."""
    compared = list(images[::2])
    others = images[1::2] or compared
    return ProbeImages(
        origin=origin,
        calibrated=[one.image_hwc for one in others],
        compared=[*compared, _stretched(compared[0])],
        stretched=1,
    )


def _stretched(one: ProbeImage) -> ProbeImage:
    """Return an image at other proportions: a graph may be wrong at sizes other than its own."""
    height, width = one.image_hwc.shape[:2]
    size = (max(1, 5 * width // 4 + 3), max(1, 3 * height // 4 + 1))
    stretched = cv2.resize(one.image_hwc, size, interpolation=cv2.INTER_AREA)
    return ProbeImage(image_hwc=np.asarray(stretched, np.uint8))


def _generated(info: NetworkInfo) -> ProbeImages:
    data = info.recipe.data
    size = [min(side, LONGEST_SIDE) for side in data.crop]
    scenes = open_dataset("scenes", "val", None, {"size": size, "val": 3})
    images = [ProbeImage(image_hwc=scenes[i].image_hwc) for i in range(len(scenes))]
    return ProbeImages(
        origin="that were generated",
        calibrated=(),
        compared=[*images, _stretched(images[0])],
        stretched=1,
        is_generated=True,
    )
