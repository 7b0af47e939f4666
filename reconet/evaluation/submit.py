"""Predictions as the test servers of three benchmarks want them. Every file appears in one move.

voc12       DIR/results/VOC2012/Segmentation/comp6_{split}_cls/{id}.png   indexed, VOC's colours
ade20k      DIR/ade20k_{split}.zip of {id}.png                            one channel, 1..150
cityscapes  DIR/cityscapes_{split}/{city}_{seq}_{frame}_pred_labelIds.png one channel, labelIds
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from reconet.data.images.read import write_index
from reconet.data.names import colour_map
from reconet.data.sets.cityscapes import LABEL_IDS
from reconet.errors import RecipeError
from reconet.system.files import check_folder, write_atomic

Label = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Submission:
    """Where predictions of a split go. Any process may `put`; one of them calls `finish`."""

    directory: Path
    split: str
    kind: "Kind"

    def put(self, name: str, label_hw: Label) -> None:
        self.kind.put(self.path(name), label_hw)

    def path(self, name: str) -> Path:
        return self.directory / self.kind.path.format(split=self.split, name=name)

    def finish(self, names: Sequence[str]) -> Path:
        """What is to be sent, once all images have been put."""
        if not self.kind.zipped:
            return self.path("").parent
        target = self.directory / self.kind.zipped.format(split=self.split)
        write_atomic(target, lambda file: self._zip(file, names))
        shutil.rmtree(self.path("").parent)
        return target

    def _zip(self, file: object, names: Sequence[str]) -> None:
        with ZipFile(file, "w", ZIP_STORED) as archive:  # type: ignore[call-overload]
            for name in names:
                path = self.path(name)
                archive.writestr(ZipInfo(path.name), path.read_bytes())  # no dates: same bytes


@dataclass(frozen=True, kw_only=True)
class Kind:
    path: str
    put: Callable[[Path, Label], None]
    zipped: str = ""


def open_submission(dataset: str, split: str, directory: Path) -> Submission:
    if dataset not in KINDS:
        raise RecipeError(
            f"{dataset} has no test server that --submit knows; {', '.join(sorted(KINDS))} have."
        )
    check_folder(directory, option="--submit")
    return Submission(directory=directory, split=split, kind=KINDS[dataset])


def put_voc(path: Path, label_hw: Label) -> None:
    write_index(path, label_hw, colour_map(256))


def put_ade20k(path: Path, label_hw: Label) -> None:
    _write_png(path, label_hw + np.uint8(1))


def put_cityscapes(path: Path, label_hw: Label) -> None:
    _write_png(path, np.array(LABEL_IDS, np.uint8)[label_hw])


def _write_png(path: Path, label_hw: Label) -> None:
    image = Image.fromarray(label_hw)
    write_atomic(path, lambda file: image.save(file, format="PNG"))


KINDS = {
    "voc12": Kind(path="results/VOC2012/Segmentation/comp6_{split}_cls/{name}.png", put=put_voc),
    "ade20k": Kind(
        path=".ade20k_{split}.parts/{name}.png", put=put_ade20k, zipped="ade20k_{split}.zip"
    ),
    "cityscapes": Kind(path="cityscapes_{split}/{name}_pred_labelIds.png", put=put_cityscapes),
}
