"""A check counts what is there, groups what is wrong, and treats all datasets alike."""

import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from reconet.data import DATASETS
from reconet.data.check import CheckReport, check_dataset, check_splits
from reconet.data.dataset import DatasetInfo, Sample
from reconet.data.images.draw import contact_sheet
from reconet.data.registry import open_dataset
from reconet.errors import MissingExtraError
from reconet.recipes import Data
from reconet.types import IGNORE
from tests.data.check.folders import Folder, blocks, noise, several
from tests.data.trees import OPTIONS, SPLITS, TREES, make_tree
from tests.factories import ProgressRecorder

CLASSES = ("wall", "door", "floor")
# What a release calls the files of a split.
NAMES = {
    "train": ("train", "training", "trainannot", "train2017", "instances_train2017"),
    "val": ("val", "validation", "valannot", "val2017", "instances_val2017"),
    "test": ("test", "testing", "testannot"),
}


def mask(*values: int, pixels: int = 10) -> NDArray[np.uint8]:
    """Draw a stripe of `pixels` pixels for each value."""
    return np.repeat(np.array(values, np.uint8), pixels).reshape(len(values), pixels)


def text_of(report: CheckReport) -> str:
    return "\n".join(report.lines())


@dataclass(frozen=True)
class Memory:
    """A dataset that checks nothing."""

    labels: tuple[NDArray[np.uint8], ...]
    split: str = "train"
    prefix: str = "train"
    image_size: tuple[int, int] | None = None
    error: Exception | None = None
    info: DatasetInfo = field(
        default=DatasetInfo(
            name="memory",
            title="",
            classes=CLASSES,
            palette=((0, 0, 0), (200, 0, 0), (0, 0, 200)),
            splits={"train": 2, "val": 2},
            disjoint=(("train", "val"),),
        )
    )

    def __len__(self) -> int:
        return len(self.labels)

    def name(self, index: int) -> str:
        return f"{self.prefix} {index}"

    def __getitem__(self, index: int) -> Sample:
        if self.error is not None:
            raise self.error
        label_hw = self.labels[index]
        height, width = self.image_size or label_hw.shape
        return Sample(self.name(index), noise(self.name(index), height, width), label_hw)


SOUND = Memory((mask(0, 1), mask(2, 255)))


def test_a_sound_dataset_has_no_finding_and_a_right_histogram() -> None:
    report = check_splits([SOUND], workers=0)
    assert report.findings == ()
    assert report.lines() == ["nothing is wrong"]
    (train,) = report.splits
    assert train.pixels_k == (10, 10, 10)
    assert train.images_k == (1, 1, 1)
    assert (train.images, train.labelled, train.broken, train.void_pixels) == (2, 2, 0, 10)
    assert {one.value: (one.means, one.pixels, one.masks) for one in report.seen} == {
        0: ("wall", 10, 1),
        1: ("door", 10, 1),
        2: ("floor", 10, 1),
        255: ("void", 10, 1),
    }


@pytest.mark.parametrize(
    ("count", "subset", "ok"), [(1, False, False), (1, True, True), (3, True, False)]
)
def test_counts_are_compared_with_the_official_ones(count: int, subset: bool, ok: bool) -> None:
    report = check_splits([replace(SOUND, labels=(mask(0),) * count)], subset=subset, workers=0)
    assert report.ok == ok
    if not ok:
        assert "where there are officially 2" in text_of(report)


def test_labels_outside_the_classes_are_named_with_their_share() -> None:
    report = check_splits([replace(SOUND, labels=(mask(0, 1), mask(37, 3, 37)))], workers=0)
    (finding,) = report.findings
    assert (finding.kind, finding.splits, finding.examples) == (
        "label-outside",
        ("train",),
        ("train 1",),
    )
    assert "37 (40 % of the pixels, in 1 mask), 3 (20 %" in finding.text
    assert finding.proposals == (), "nobody can set what the numbers of this dataset mean"
    assert report.splits[0].broken == 1


def test_a_label_of_another_size_than_its_image_is_named() -> None:
    report = check_splits([replace(SOUND, image_size=(7, 9))], workers=0)
    assert "10 x 2 for 9 x 7 (width x height)" in text_of(report)


def test_splits_that_must_be_disjoint_are_compared() -> None:
    val = replace(SOUND, split="val")
    assert check_splits([SOUND, replace(val, prefix="val")], workers=0).ok
    report = check_splits([SOUND, val], workers=0)
    assert [(finding.kind, finding.count) for finding in report.problems] == [("leak", 2)]


def test_one_name_for_two_images_of_a_split_is_a_problem() -> None:
    class Nameless(Memory):
        def name(self, index: int) -> str:
            return "x"

    report = check_splits([Nameless(SOUND.labels)], workers=0)
    assert {finding.kind: finding.examples for finding in report.findings} == {
        "name-twice": ("x",),
        "duplicate-mask": ("x",),  # here the name makes the image
    }


@pytest.mark.parametrize("workers", [0, 1])
def test_what_concerns_all_images_is_an_error_and_not_a_report(workers: int) -> None:
    broken = replace(SOUND, error=MissingExtraError("data", "reading x.mat"))
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[data\]'"):
        check_splits([broken], workers=workers)


def test_broken_files_are_named_and_the_rest_is_counted(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for number in range(6):
        folder.add(f"train/{number}", mask(0, 1, 2))
    (tmp_path / "images/train/1.png").write_bytes(b"no image")
    folder.add_mask("train/2", mask(0, 1))
    folder.add_mask("train/4", mask(0, 1, 37))
    dataset = open_dataset("folder", "train", tmp_path, {"classes": CLASSES})
    progress = ProgressRecorder()
    report = check_splits([dataset], workers=0, progress=progress)
    assert {finding.kind: finding.examples for finding in report.findings} == {
        "unreadable-image": ("1",),
        "size": ("2",),
        "label-outside": ("4",),
    }
    assert report.splits[0].broken == 3
    assert report.splits[0].pixels_k == (30, 30, 30)
    assert progress.lines == ["start 6", *["advance 1"] * 6]


def test_processes_report_what_one_process_reports(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for number in range(20):
        folder.add(f"train/{number}", mask(0, 1, 2 if number % 5 else 9))
    dataset = open_dataset("folder", "train", tmp_path, {"classes": CLASSES})
    assert check_splits([dataset], workers=2) == check_splits([dataset], workers=0)


def test_one_name_for_two_images_of_two_splits_is_allowed(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for name in ("train/a", "train/b", "val/a", "val/b"):
        folder.add(name, mask(0, 1, 2))
    assert not folder.check({"classes": list(CLASSES)}).findings


def test_a_report_renders_as_rows_and_as_json(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.add_all(several((0, 1, 2, 3)))
    report = folder.check({"classes": list(CLASSES)})
    values = json.loads(json.dumps(report.as_dict()))
    assert values["ok"] is False
    (finding,) = values["findings"]
    assert finding["kind"] == "label-outside"
    assert finding["proposals"][1] == {
        "condition": "if 3 means void",
        "settings": ["data.options.ignore=[255, 3]"],
        "unfinished": False,
    }
    assert list(values["absent"]) == ["test"]
    for listing in report.listings():
        assert all(len(row) == len(listing.columns) for row in listing.rows)
    splits, classes, seen = report.listings()
    assert [row[0] for row in splits.rows] == ["train", "val"]
    assert classes.rows[1][0] == "1 door"
    assert ("3", "?", "25.00 %", "6") in seen.rows
    assert len(check_splits([SOUND], workers=0).listings()) == 2


def test_a_setting_can_be_pasted_into_a_shell_whatever_the_class_names_are(tmp_path: Path) -> None:
    import shlex

    folder = Folder(tmp_path)
    folder.add_all(several((0, 1, 2)))
    report = folder.check({"classes": ["driver's cab", 'say "x"']})
    (line,) = report.findings[0].proposals[0].lines()
    words = shlex.split(line[line.index("--set") :])
    assert json.loads(words[1].partition("=")[2]) == ["driver's cab", 'say "x"', "class 2"]


def test_own_images_are_called_by_their_title_or_folder(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "mill")
    folder.add_all(several((0, 1, 2)))
    for options, title in (({}, "folder mill"), ({"title": "Rooms"}, "Rooms")):
        report = folder.check({"classes": list(CLASSES)} | options)
        assert (report.listings()[0].title, report.dataset) == (title, "folder")


@pytest.mark.parametrize(
    ("name", "split"),
    [
        (name, split)
        for name in sorted(TREES)
        for split in SPLITS[name]
        if split in NAMES and name not in ("scenes", "siftflow")  # one list serves both splits
    ],
)
def test_a_split_that_nobody_asked_for_may_be_absent(name: str, split: str, tmp_path: Path) -> None:
    make_tree(name, tmp_path)
    for path in sorted(tmp_path.rglob("*")):
        if path.stem in NAMES[split] and path.exists():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    data = Data.model_validate({"name": name, "root": tmp_path, "options": OPTIONS.get(name, {})})
    report, _ = check_dataset(data, subset=True, workers=0)
    assert split in report.absent
    assert "split" not in {finding.kind for finding in report.findings}
    assert report.ok, text_of(report)
    assert split in DATASETS[name].info.splits


def test_the_contact_sheet_shows_images_labels_and_the_broken_ones(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for number in range(5):
        folder.add(f"train/{number}", blocks((0, 1, IGNORE), number))
    (tmp_path / "images/train/0.png").write_bytes(b"no image")
    dataset = open_dataset("folder", "train", tmp_path, {"classes": CLASSES})
    path = tmp_path / "sheets" / "train.png"
    contact_sheet(dataset, path, count=4)
    page_hwc = cv2.imread(str(path), cv2.IMREAD_COLOR_RGB)
    assert page_hwc is not None
    assert page_hwc.shape[0] > 2 * 28
    assert (page_hwc == dataset.info.palette[1]).all(2).any()
    assert list(path.parent.iterdir()) == [path]
    assert np.asarray(Image.open(path)).std() > 10
