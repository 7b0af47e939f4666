"""A check counts what is there, finds what is wrong, and proposes what mends it."""

import json
import shlex
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from reconet.data import DATASETS, DatasetInfo, Sample, check, open_dataset
from reconet.errors import MissingExtraError, ReconetError
from reconet.recipes import find_recipe
from tests.data.check.cases import CASES, SPLITS, Case
from tests.data.check.folders import Folder, noise, several
from tests.data.check.makers import ABC, RGB, coloured
from tests.data.trees import OPTIONS, TREES, make_tree
from tests.data.trees import SPLITS as TREE_SPLITS
from tests.factories import ProgressRecorder

# What a release calls the files of a split.
NAMES = {
    "train": ("train", "training", "trainannot", "train2017", "instances_train2017"),
    "val": ("val", "validation", "valannot", "val2017", "instances_val2017"),
    "test": ("test", "testing", "testannot"),
}


def make(case: Case, root: Path) -> tuple[Folder, dict[str, Any]]:
    folder = Folder(root)
    case.make(folder)
    options: dict[str, Any] = {"classes": list(case.classes)} if case.classes else {}
    return folder, options | case.options


def follow(proposal: check.Proposal, options: dict[str, Any]) -> dict[str, Any]:
    """Set what a proposal says, as a user does who pastes it."""
    settings = [one.removeprefix("data.options.").partition("=") for one in proposal.settings]
    return options | {key: json.loads(text) for key, _, text in settings}


def same(folder: Folder, options: dict[str, Any]) -> None:
    for image, label_hw in folder.read(options).items():
        np.testing.assert_array_equal(label_hw, folder.truth[image])


@pytest.mark.parametrize("name", CASES)
def test_a_check_finds_what_is_wrong_and_nothing_else(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    folder, options = make(case, tmp_path)
    report = folder.check(options)
    assert sorted(finding.kind for finding in report.findings) == sorted(case.findings)
    assert report.ok == (case.notes_only or not case.findings)
    made = [proposal for finding in report.findings for proposal in finding.proposals]
    assert tuple(next(iter(proposal.options)) for proposal in made) == case.proposals
    text = "\n".join(report.lines())
    assert case.says in text
    assert (text.splitlines()[-1] == "nothing is wrong") == (not case.findings)


@pytest.mark.parametrize("name", [n for n in CASES if CASES[n].mends is not None])
def test_the_right_proposal_mends_the_folder(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    folder, options = make(case, tmp_path)
    (finding,) = folder.check(options).findings
    assert case.mends is not None
    options = follow(finding.proposals[case.mends], options)
    report = folder.check(options)
    assert report.ok or {finding.kind for finding in report.findings} == {"class-empty"}
    assert [one.split for one in report.splits][:2] == ["train", "val"]
    if name not in SPLITS and finding.kind not in ("exif", "leak", "duplicate-mask"):
        same(folder, options)


def test_proposals_can_be_pasted_into_a_file_and_into_a_shell(tmp_path: Path) -> None:
    folder, options = make(CASES["one name, 0 and 255"], tmp_path)
    _, _, first, *entries, _ = folder.check(options).lines("mine.yaml")
    assert first == "  if 0 means background and 255 means crack, write into mine.yaml:"
    values = dict(entry.strip().split(": ", 1) for entry in entries)
    assert folder.check({key: json.loads(text) for key, text in values.items()}).ok
    report = folder.check({"classes": ["driver's cab"]})
    line = report.findings[0].proposals[0].lines()[0]
    words = shlex.split(line[line.index("--set") :])
    assert json.loads(words[1].partition("=")[2]) == ["background", "driver's cab"]


def test_a_list_of_colours_is_refused_until_names_are_put_in(tmp_path: Path) -> None:
    folder, options = make(CASES["colours of nobody"], tmp_path)
    (finding,) = folder.check(options).findings
    (proposal,) = finding.proposals
    assert proposal.unfinished
    with pytest.raises(ReconetError, match="'NAME 1' is neither a class nor 'ignore'"):
        folder.check(follow(proposal, options))
    colours = follow(proposal, {})["colours"]
    name_of = {RGB[label]: name for label, name in enumerate(ABC)}
    options["colours"] = {name_of[tuple(colour)]: colour for colour in colours.values()}
    assert not folder.check(options).findings
    same(folder, options)


def test_48_equal_mistakes_are_one_finding_with_three_names(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for number in range(8):
        coloured(RGB)(Folder(tmp_path / "one"))
        for kind in ("images", "masks"):
            shutil.copytree(tmp_path / "one" / kind, tmp_path / kind / f"{number}")
    report = folder.check({"classes": list(ABC)})
    (finding,) = [one for one in report.findings if one.kind == "colours-unread"]
    assert (finding.count, len(finding.examples), len(finding.lines())) == (48, 3, 2)
    assert "(200, 0, 0) 33 %" in finding.lines()[0]
    assert {one.means for one in report.seen} == {""}, "a colour is no number"


@pytest.mark.parametrize("name", ["images without masks", "masks without images"])
def test_a_subset_may_lack_partners(name: str, tmp_path: Path) -> None:
    folder, options = make(CASES[name], tmp_path)
    assert folder.check(options, subset=True).ok


def test_the_docs_explain_every_kind_of_finding() -> None:
    page = (Path(__file__).parents[3] / "docs/data-check.md").read_text()
    rows = page.split("## Findings")[1]
    kinds = {kind for case in CASES.values() for kind in case.findings}
    assert [kind for kind in kinds | {"count", "name-twice"} if f"`{kind}`" not in rows] == []


def mask(*values: int, pixels: int = 10) -> NDArray[np.uint8]:
    """Draw a stripe of `pixels` pixels for each value."""
    return np.repeat(np.array(values, np.uint8), pixels).reshape(len(values), pixels)


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
            classes=ABC,
            palette=((0, 0, 0), (200, 0, 0), (0, 0, 200)),
            splits={"train": 2, "val": 2},
            disjoint=(("train", "val"),),
        )
    )

    def __len__(self) -> int:
        return len(self.labels)

    def name(self, index: int) -> str:
        return f"{self.prefix} {index if self.prefix else ''}"

    def __getitem__(self, index: int) -> Sample:
        if self.error is not None:
            raise self.error
        label_hw = self.labels[index]
        height, width = self.image_size or label_hw.shape
        return Sample(self.name(index), noise(self.name(index), height, width), label_hw)


SOUND = Memory((mask(0, 1), mask(2, 255)))


def test_a_sound_dataset_has_no_finding_and_a_right_histogram() -> None:
    report = check.check_splits([SOUND], workers=0)
    assert report.lines() == ["nothing is wrong"]
    (train,) = report.splits
    assert (train.pixels_k, train.images_k) == ((10, 10, 10), (1, 1, 1))
    assert (train.images, train.labelled, train.broken, train.void_pixels) == (2, 2, 0, 10)
    seen = {one.value: (one.means, one.pixels, one.masks) for one in report.seen}
    assert seen == {value: (means, 10, 1) for value, means in [*enumerate(ABC), (255, "void")]}


@pytest.mark.parametrize(
    ("changes", "subset", "kinds"),
    [
        ({"labels": (mask(0),)}, False, {"count", "class-empty"}),
        ({"labels": (mask(0),)}, True, set()),
        ({"labels": (mask(0),) * 3}, True, {"count"}),
        ({"labels": (mask(0, 1, 2), mask(37, 3, 37))}, False, {"label-outside"}),
        ({"image_size": (7, 9)}, False, {"size"}),
        ({"prefix": ""}, False, {"name-twice", "duplicate-mask"}),  # the name makes the image
    ],
)
def test_datasets_that_nobody_can_set_are_checked_too(
    changes: dict[str, Any], subset: bool, kinds: set[str]
) -> None:
    report = check.check_splits([replace(SOUND, **changes)], subset=subset, workers=0)
    assert {finding.kind for finding in report.findings} == kinds
    assert not any(finding.proposals for finding in report.findings)


def test_splits_that_must_be_disjoint_are_compared() -> None:
    val = replace(SOUND, split="val")
    assert check.check_splits([SOUND, replace(val, prefix="val")], workers=0).ok
    report = check.check_splits([SOUND, val], workers=0)
    assert [(finding.kind, finding.count) for finding in report.problems] == [("leak", 2)]


def test_what_concerns_all_images_is_an_error_and_not_a_report() -> None:
    broken = replace(SOUND, error=MissingExtraError("data", "reading x.mat"))
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[data\]'"):
        check.check_splits([broken], workers=0)


def test_broken_files_are_named_and_the_rest_is_counted_in_one_process_or_more(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path)
    for number in range(6):
        folder.add(f"train/{number}", mask(0, 1, 2))
    (tmp_path / "images/train/1.png").write_bytes(b"no image")
    folder.add_mask("train/2", mask(0, 1))
    folder.add_mask("train/4", mask(0, 1, 37))
    dataset = open_dataset("folder", "train", tmp_path, {"classes": ABC})
    progress = ProgressRecorder()
    report = check.check_splits([dataset], workers=0, progress=progress)
    assert {finding.kind: finding.examples for finding in report.findings} == {
        "unreadable-image": ("1",),
        "size": ("2",),
        "label-outside": ("4",),
    }
    assert (report.splits[0].broken, report.splits[0].pixels_k) == (3, (30, 30, 30))
    assert progress.lines == ["start 6", *["advance 1"] * 6]
    assert check.check_splits([dataset], workers=2) == report


def test_a_report_renders_as_rows_and_as_json(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "mill")
    folder.add_all(several((0, 1, 2, 3)))
    report = folder.check({"classes": list(ABC), "title": "Rooms"})
    values = json.loads(json.dumps(report.as_dict()))
    (finding,) = values["findings"]
    assert (values["ok"], finding["kind"], list(values["absent"])) == (
        *(False, "label-outside"),
        ["test"],
    )
    assert finding["proposals"][1] == {
        "condition": "if 3 means void",
        "settings": ["data.options.ignore=[255, 3]"],
        "unfinished": False,
    }
    splits, classes, seen = report.listings()
    assert (splits.title, [row[0] for row in splits.rows]) == ("Rooms", ["train", "val"])
    assert classes.rows[1][0] == "1 door"
    assert ("3", "?", "25.00 %", "6") in seen.rows
    assert folder.check({"classes": list(ABC)}).listings()[0].title == "mill"


@pytest.mark.parametrize(
    ("name", "split"),
    [
        (name, split)
        for name in sorted(TREES)
        for split in TREE_SPLITS[name]
        if split in NAMES and name not in ("scenes", "siftflow")  # one list serves both splits
    ],
)
def test_a_split_that_nobody_asked_for_may_be_absent(name: str, split: str, tmp_path: Path) -> None:
    make_tree(name, tmp_path)
    for path in sorted(tmp_path.rglob("*")):
        if path.stem in NAMES[split] and path.exists():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    data = find_recipe("folder/reconet").data.model_copy(
        update={"name": name, "root": tmp_path, "options": OPTIONS.get(name, {})}
    )
    report, _ = check.check_dataset(data, subset=True, workers=0)
    assert split in report.absent
    assert report.ok, report.lines()
    assert split in DATASETS[name].info.splits
