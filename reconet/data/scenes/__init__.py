"""The built-in dataset `scenes`: generated images in which context decides. It has no files.

generate.py  from facts to an image and its labels
paint.py     the things in it, which do not know their classes
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from reconet.data.dataset import DatasetEntry, DatasetInfo, Sample
from reconet.data.scenes.generate import CLASSES, PALETTE, scene
from reconet.recipes.schema import Settings
from reconet.recipes.values import Seed, both_sides

LONGEST_SIDE = 2048  # a larger image takes minutes to draw
Side = Annotated[int, Field(gt=0, le=LONGEST_SIDE, strict=True)]
Size = Annotated[tuple[Side, Side], BeforeValidator(both_sides)]
Count = Annotated[int, Field(gt=0, le=10**6, strict=True)]


class ScenesOptions(Settings):
    """Settings of the dataset `scenes`, in data.options."""

    size: Size = (160, 160)
    """height and width of the images"""
    train: Count = 2000
    """number of training images"""
    val: Count = 200
    """number of validation images"""
    seed: Seed = 0
    """another seed gives other images"""


DEFAULTS = ScenesOptions()
SPLITS = ("train", "val")


@dataclass(frozen=True, kw_only=True)
class ScenesDataset:
    """A split of `scenes`. Every access draws the image anew."""

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
        """Draw an image. Train has the even numbers of an endless series, val the odd ones."""
        place = range(self.count)[index]
        number = len(SPLITS) * place + SPLITS.index(self.split)
        return Sample(self.name(place), *scene(self.seed, number, self.size))


def open_scenes(_root: Path, split: str, options: ScenesOptions) -> ScenesDataset:
    counts = {"train": options.train, "val": options.val}
    return ScenesDataset(
        info=replace(SCENES.info, splits=counts),
        split=split,
        count=counts[split],
        size=options.size,
        seed=options.seed,
    )


SCENES = DatasetEntry(
    info=DatasetInfo(
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
    ),
    open=open_scenes,
    options=ScenesOptions,
    needs_root=False,
    terms="drawn by this package, so no licence is needed",
)
