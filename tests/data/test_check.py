"""A check finds all problems, with file, value and pixel count, and reports nothing else."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from reconet.data import open_dataset
from reconet.data.check import check_splits
from reconet.data.check_report import CheckReport
from reconet.data.dataset import Dataset, DatasetInfo, Sample
from reconet.data.images.draw import contact_sheet
from reconet.errors import MissingExtraError
from reconet.system.readable import counted
from reconet.types import IGNORE
from tests.factories import ProgressRecorder

CLASSES = ("wall", "door", "floor")


def write_folder(
    root: Path, masks: Mapping[str, NDArray[np.uint8]], seed: int = 0
) -> Callable[..., list[Dataset]]:
    """Write images of noise with these masks, by split/name. Return a function that opens them."""
    rng = np.random.default_rng(seed)
    for name, mask_hw in masks.items():
        image, mask = root / "images" / f"{name}.png", root / "masks" / f"{name}.png"
        for path in (image, mask):
            path.parent.mkdir(parents=True, exist_ok=True)
        image_hwc = rng.integers(0, 256, (*mask_hw.shape, 3), dtype=np.uint8)
        Image.fromarray(image_hwc).save(image)
        Image.fromarray(mask_hw).save(mask)
    splits = sorted({name.split("/")[0] for name in masks})

    def opened(classes: tuple[str, ...] = CLASSES, **options: Any) -> list[Dataset]:
        settings = {"classes": classes, **options}
        return [open_dataset("folder", split, root, settings) for split in splits]

    return opened


def mask(*values: int, pixels: int = 10) -> NDArray[np.uint8]:
    """Draw a stripe of `pixels` pixels for each value."""
    return np.repeat(np.array(values, np.uint8), pixels).reshape(len(values), pixels)


def texts(report: CheckReport) -> str:
    return "\n".join(problem.text for problem in report.problems)


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
        size = self.image_size or label_hw.shape
        return Sample(self.name(index), np.zeros((*size, 3), np.uint8), label_hw)


SOUND = Memory((mask(0, 1), mask(2, 255)))


def test_a_sound_dataset_has_no_problem_and_a_right_histogram() -> None:
    report = check_splits([SOUND], workers=0)
    assert report.ok
    assert report.proposals == ()
    (train,) = report.splits
    assert train.pixels_k == (10, 10, 10)
    assert train.images_k == (1, 1, 1)
    assert (train.images, train.labelled, train.broken, train.void_pixels) == (2, 2, 0, 10)


@pytest.mark.parametrize(
    ("count", "subset", "ok"), [(1, False, False), (1, True, True), (3, True, False)]
)
def test_counts_are_compared_with_the_official_ones(count: int, subset: bool, ok: bool) -> None:
    report = check_splits([replace(SOUND, labels=(mask(0),) * count)], subset=subset, workers=0)
    assert report.ok == ok
    if not ok:
        assert f"{counted(count, 'image')}, where there are officially 2" in texts(report)


def test_labels_outside_the_classes_are_named_with_value_and_pixels() -> None:
    report = check_splits([replace(SOUND, labels=(mask(0, 1), mask(37, 3, 37)))], workers=0)
    (problem,) = report.problems
    assert (problem.split, problem.name) == ("train", "train 1")
    assert problem.values == {3: 10, 37: 20}
    assert "37 (20 pixels)" in problem.text
    assert report.splits[0].broken == 1


def test_a_label_of_another_size_than_its_image_is_named() -> None:
    report = check_splits([replace(SOUND, image_size=(7, 9))], workers=0)
    assert "the label of train 0 is 10 x 2 but its image 9 x 7" in texts(report)


def test_splits_that_must_be_disjoint_are_compared() -> None:
    val = replace(SOUND, split="val")
    assert check_splits([SOUND, replace(val, prefix="val")], workers=0).ok
    report = check_splits([SOUND, val], workers=0)
    assert len(report.problems) == 2
    assert "train 1 is in train and in val" in texts(report)


@pytest.mark.parametrize("workers", [0, 1])
def test_what_concerns_all_images_is_an_error_and_not_a_report(workers: int) -> None:
    broken = replace(SOUND, error=MissingExtraError("data", "reading x.mat"))
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[data\]' in the clone"):
        check_splits([broken], workers=workers)


def test_broken_files_are_collected_by_name_and_the_rest_is_counted(tmp_path: Path) -> None:
    opened = write_folder(tmp_path, {f"train/{i}": mask(0, 1, 2) for i in range(6)})
    (tmp_path / "images/train/1.png").write_bytes(b"no image")
    Image.fromarray(mask(0, 1)).save(tmp_path / "masks/train/2.png")
    Image.fromarray(mask(0, 1, 37, pixels=10)).save(tmp_path / "masks/train/4.png")
    progress = ProgressRecorder()
    report = check_splits(opened(), workers=0, progress=progress)
    assert [Path(problem.name).stem for problem in report.problems] == ["1", "2", "4"]
    for problem, file in zip(report.problems, ("1.png", "2.png", "4.png"), strict=True):
        assert file in problem.text
    assert report.problems[2].values == {37: 10}
    assert report.splits[0].broken == 3
    assert report.splits[0].pixels_k == (30, 30, 30)
    assert progress.lines == ["start 6", *["advance 1"] * 6]


def test_processes_report_what_one_process_reports(tmp_path: Path) -> None:
    masks = {f"train/{i}": mask(0, 1, 2 if i % 5 else 9) for i in range(20)}
    datasets = write_folder(tmp_path, masks)()
    assert check_splits(datasets, workers=2) == check_splits(datasets, workers=0)


def test_masks_of_0_and_255_are_a_problem_with_a_proposal_that_mends_it(tmp_path: Path) -> None:
    opened = write_folder(
        tmp_path, {"train/a": mask(0, 255), "train/b": mask(0), "val/c": mask(255)}
    )
    report = check_splits(opened(("no", "yes")), workers=0)
    assert not report.ok
    assert report.problems[0].values == {0: 20, 255: 20}
    (proposal,) = report.proposals
    assert proposal.label_map == {0: 0, 255: 1}
    mended = check_splits(opened(("no", "yes"), label_map=proposal.label_map), workers=0)
    assert mended.ok
    assert mended.splits[0].pixels_k == (20, 10)


def test_masks_of_0_and_another_illegal_value_get_a_proposal(tmp_path: Path) -> None:
    opened = write_folder(tmp_path, {"train/a": mask(0, 128), "train/b": mask(0)})
    (proposal,) = check_splits(opened(("no", "yes")), workers=0).proposals
    assert check_splits(opened(("no", "yes"), label_map=proposal.label_map), workers=0).ok


@pytest.mark.parametrize("first", [0, 1])
def test_labels_off_by_one_get_a_proposal_that_mends_them(tmp_path: Path, first: int) -> None:
    masks = {"train/a": mask(1, 2), "train/b": mask(first, 3, 255), "val/c": mask(1, 1)}
    opened = write_folder(tmp_path, masks)
    report = check_splits(opened(), workers=0)
    assert report.problems[0].values == {3: 10}
    (proposal,) = report.proposals
    assert proposal.label_map == {0: 255, 1: 0, 2: 1, 3: 2, 255: 255}
    assert 'label_map={"0": 255, "1": 0' in str(proposal)
    assert check_splits(opened(label_map=proposal.label_map), workers=0).ok


@pytest.mark.parametrize("values", [(0, 1, 2), (1, 2), (0, 1, 37), (0, 255)])
def test_nothing_is_proposed_without_reason(tmp_path: Path, values: tuple[int, ...]) -> None:
    opened = write_folder(tmp_path, {"train/a": mask(*values), "train/b": mask(0, 1)})
    assert check_splits(opened(), workers=0).proposals == ()


def test_one_image_in_two_splits_is_found_and_one_name_for_two_is_allowed(tmp_path: Path) -> None:
    masks = {"train/a": mask(0, 1), "train/b": mask(0, 1), "val/a": mask(0, 1), "val/b": mask(0, 1)}
    datasets = write_folder(tmp_path, masks)()
    assert check_splits(datasets, workers=0).ok
    copied = (tmp_path / "images/train/b.png").read_bytes()
    (tmp_path / "images/val/b.png").write_bytes(copied)
    report = check_splits(datasets, workers=0)
    assert [(problem.split, problem.name) for problem in report.problems] == [("train, val", "b")]


def test_a_report_renders_as_rows_and_as_json() -> None:
    report = check_splits([replace(SOUND, labels=(mask(0, 1), mask(37)))], workers=0)
    values = json.loads(json.dumps(report.as_dict()))
    assert values["ok"] is False
    assert values["problems"][0]["values"] == {"37": 10}
    splits, classes, problems = report.listings()
    for listing in (splits, classes, problems):
        assert all(len(row) == len(listing.columns) for row in listing.rows)
    assert splits.rows == [("train", "2", "2", "1", "1", "0.00 %")]
    assert classes.rows[1] == ("1 door", "1", "50.00 %")
    assert "37 (10 pixels)" in problems.rows[0][2]
    assert len(check_splits([SOUND], workers=0).listings()) == 2


def test_the_contact_sheet_shows_images_labels_and_the_broken_ones(tmp_path: Path) -> None:
    opened = write_folder(tmp_path, {f"train/{i}": mask(0, 1, IGNORE, pixels=30) for i in range(5)})
    (tmp_path / "images/train/0.png").write_bytes(b"no image")
    (dataset,) = opened()
    path = tmp_path / "sheets" / "train.png"
    contact_sheet(dataset, path, count=4)
    page_hwc = cv2.imread(str(path), cv2.IMREAD_COLOR_RGB)
    assert page_hwc is not None
    assert page_hwc.shape[0] > 2 * 28
    assert (page_hwc == dataset.info.palette[1]).all(2).any()
    assert list(path.parent.iterdir()) == [path]
