"""The built-in dataset `scenes`: generated images, no files (see scenes.py)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from reconet.data.dataset import DatasetInfo, Sample
from reconet.data.options import read_options
from reconet.data.scenes.generate import CLASSES, PALETTE, scene
from reconet.recipes.schema import Count, Seed, Settings, Size


class ScenesOptions(Settings):
    size: Size = (160, 160)
    """height and width of the images"""
    train: Count = 2000
    """number of training images"""
    val: Count = 200
    """number of validation images"""
    seed: Seed = 0
    """another seed, another world"""


DEFAULTS = ScenesOptions()
INFO = DatasetInfo(
    name="scenes",
    title="generated scenes in which context decides",
    classes=CLASSES,
    palette=PALETTE,
    splits={"train": DEFAULTS.train, "val": DEFAULTS.val},
    disjoint=(("train", "val"),),
    layout=("no files",),
    licence="none needed",
    source="built in",
    notes=("options: size, train, val, seed",),
)
SERIES = ("train", "val")


@dataclass(frozen=True, kw_only=True)
class ScenesDataset:
    info: DatasetInfo
    split: str
    count: int
    size: tuple[int, int]
    seed: int

    def __len__(self) -> int:
        return self.count

    def name(self, index: int) -> str:
        return f"{self.split}-{range(self.count)[index]:06d}"

    def __getitem__(self, index: int) -> Sample:
        """Train has the even images of the endless series and val the odd: they never meet."""
        place = range(self.count)[index]
        number = len(SERIES) * place + SERIES.index(self.split)
        return Sample(self.name(place), *scene(self.seed, number, self.size))


def open_scenes(_root: Path, split: str, options: Mapping[str, object]) -> ScenesDataset:
    chosen = read_options(ScenesOptions, options)
    counts = {"train": chosen.train, "val": chosen.val}
    return ScenesDataset(
        info=replace(INFO, splits=counts),
        split=split,
        count=counts[split],
        size=chosen.size,
        seed=chosen.seed,
    )
