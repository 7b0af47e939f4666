"""A table of folders, right and wrong: what a check finds, proposes, and must never propose."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reconet.data.check import Proposal
from reconet.data.check.report import KINDS
from reconet.data.classes import colour_map
from reconet.types import IGNORE
from tests.data.check import cases as c
from tests.data.check.cases import ABC, FOUR, SEVEN, TWO, Case, coloured, masks, meaning
from tests.data.check.folders import Folder, painted, several

OUTSIDE = ("label-outside",)
UNREAD = ("colours-unread",)
NUMBERS_7 = tuple(range(8))

RIGHT = {
    "numbers": Case(masks(0, 1, 2)),
    "numbers and void": Case(masks(0, 1, 2, 255)),
    "folders without test": Case(c.in_folders),
    "lists without test": Case(c.with_lists),
    "a file of pairs": Case(c.with_pairs, options={"pairs": "{split}.tsv"}),
    "a test split without masks": Case(c.with_test),
    "longer names of masks": Case(c.with_suffix, options={"mask_suffix": "_mask"}),
    "palettes": Case(c.with_palette),
    "one bit": Case(c.one_bit, TWO),
    "a label map": Case(masks(0, 7, 9), options={"label_map": {"0": 0, "7": 1, "9": 2}}),
    "a label map with ranges": Case(
        masks(3, 99), TWO, options={"label_map": {"0-9": 0, "90-99": 1}}
    ),
    "colours": Case(coloured(c.RGB), options={"colours": c.RGB_OPTION}),
    "labelmap.txt alone": Case(c.with_label_map_file, ()),
    "a thin class 0": Case(c.thin_first_class(1, 2)),
    "turned images, masks not": Case(c.turned(6, 8, upright=False)),
    "turned images and masks": Case(c.turned(6, 8), options={"upright": True}),
}
NUMBERS = {
    "a name is missing": Case(
        masks(*NUMBERS_7), SEVEN, OUTSIDE, ("classes", "ignore"), 0, says="that no class has: 7 ("
    ),
    "two names are missing": Case(masks(0, 1, 2, 3, 4), ABC, OUTSIDE, ("classes", "ignore"), 0),
    "a name is missing, class 0 is thin": Case(
        c.thin_first_class(1, 2, 3), ABC, OUTSIDE, ("classes", "ignore"), 0
    ),
    "a name is missing, class 0 is a post": Case(c.poles, SEVEN, OUTSIDE, ("classes", "ignore"), 0),
    "one stray mask": Case(c.stray(3, 0, 1, 2), ABC, OUTSIDE, ("ignore",), 0, says="in 1 mask"),
    "one stray mask, class 0 is rare": Case(c.stray(3, 1, 2), ABC, OUTSIDE, ("ignore",), 0),
    "the next number is void": Case(
        meaning((0, 1, 2, 3), (0, 1, 2, IGNORE)), ABC, OUTSIDE, ("classes", "ignore"), 1
    ),
    "another number is void": Case(
        meaning((0, 1, 2, 254), (0, 1, 2, IGNORE)), ABC, OUTSIDE, ("ignore",), 0
    ),
    "a number is not in the label map": Case(
        meaning((0, 7, 9), (0, 1, IGNORE)),
        TWO,
        OUTSIDE,
        ("label_map",),
        0,
        options={"label_map": {"0": 0, "7": 1}},
    ),
    "numbers start at 1": Case(meaning((1, 2, 3), (0, 1, 2)), ABC, OUTSIDE, ("label_map",), 0),
    "0 is void between classes": Case(c.void_borders, ABC, OUTSIDE, ("classes", "label_map"), 1),
    "0 is void around images": Case(c.void_frame, ABC, OUTSIDE, ("classes", "label_map"), 1),
    "0 and 255": Case(meaning((0, 255), (0, 1)), TWO, ("label-void",), ("label_map",), 0),
    "0 and 128": Case(meaning((0, 128), (0, 1)), TWO, OUTSIDE, ("label_map",), 0),
    "0, 50, 100, 150": Case(
        meaning((0, 50, 100, 150), (0, 1, 2, 3)), FOUR, OUTSIDE, ("label_map",), 0
    ),
    "0, 50, 100, 150 and void": Case(
        meaning((0, 50, 100, 150, 255), (0, 1, 2, 3, IGNORE)), FOUR, OUTSIDE, ("label_map",), 0
    ),
    "0, 85, 170, 255": Case(
        meaning((0, 85, 170, 255), (0, 1, 2, 3)), FOUR, OUTSIDE, ("label_map",), 0
    ),
    "0, 128, 255": Case(meaning((0, 128, 255), (0, 1, 2)), ABC, OUTSIDE, ("label_map",), 0),
    "50, 100, 150": Case(meaning((50, 100, 150), (0, 1, 2)), ABC, OUTSIDE, ("label_map",), 0),
    "smooth edges": Case(c.smooth, TWO, OUTSIDE, ("label_map",), 0, says="grey edges are void"),
    "void, a rare class and mistakes": Case(c.rare_class_and_strays, TWO, OUTSIDE, ("ignore",), 0),
    "even numbers of a longer list": Case(
        meaning((0, 2, 6), (0, 2, IGNORE)), FOUR, OUTSIDE, ("ignore",), 0
    ),
    "many numbers": Case(masks(0, 1, 2, 30, 41, 77, 130, 201), ABC, OUTSIDE),
}
COLOURS = {
    "grey numbers": Case(
        coloured({0: (0, 0, 0), 1: (1, 1, 1), 2: (2, 2, 2)}), ABC, UNREAD, ("colours",), 0
    ),
    "black and white": Case(
        coloured({0: (0, 0, 0), 1: (255, 255, 255)}, (0, 1)), TWO, UNREAD, ("colours",), 0
    ),
    "grey steps": Case(
        coloured({0: (0, 0, 0), 1: (90, 90, 90), 2: (180, 180, 180)}), ABC, UNREAD, ("colours",), 0
    ),
    "colours of VOC": Case(
        coloured(dict(enumerate(colour_map(3)))), ABC, UNREAD, ("colours",), 0, says="PASCAL VOC"
    ),
    "colours of VOC after black": Case(
        coloured({IGNORE: (0, 0, 0)} | dict(enumerate(colour_map(3, 1))), (0, 1, 2, IGNORE)),
        ABC,
        UNREAD,
        ("colours",),
        0,
    ),
    "colours of Cityscapes": Case(
        coloured(dict(enumerate(c.STREET.values()))),
        tuple(c.STREET),
        UNREAD,
        ("colours",),
        0,
        says="Cityscapes",
    ),
    "colours of labelmap.txt": Case(
        c.with_label_map_file, ABC, UNREAD, ("colours",), 0, says="as labelmap.txt says"
    ),
    "colours of nobody": Case(
        coloured(c.RGB), ABC, UNREAD, ("colours",), says='"NAME": [200, 0, 0]'
    ),
    "too many colours": Case(c.photographs_as_masks, ABC, UNREAD, says="smooth edges"),
    "one more colour": Case(
        coloured(c.RGB, (0, 1, 2, IGNORE)),
        ABC,
        ("colours-unknown",),
        options={"colours": c.RGB_OPTION},
        says="(1, 1, 1)",
    ),
}
FILES = {
    "JPEG masks": Case(c.jpeg_masks, ABC, ("unreadable-mask",), says="6 masks: it is a JPEG"),
    "wide masks": Case(c.wide_masks, ABC, ("unreadable-mask",) * 6, says="16-bit"),
    "damaged images": Case(c.damaged, ABC, ("unreadable-image",) * 2, says="is empty"),
    "a damaged mask": Case(c.damaged_mask, ABC, ("unreadable-mask",)),
    "masks of turned images": Case(
        c.turned(6, 8), ABC, ("exif",), ("upright",), says="6 images have an EXIF orientation"
    ),
    "masks of some turned images": Case(c.turned(1, 6), ABC, ("exif",), ("upright",)),
    "masks of half of the turned images": Case(c.half_turned, ABC, ("exif",)),
    "turned squares": Case(c.turned(6, square=True), ABC, ("exif-unclear",), notes_only=True),
    "images upside down": Case(c.turned(3), ABC, ("exif-unclear",), notes_only=True),
    "a smaller mask": Case(c.other_sizes, ABC, ("size",), says="32 x 22 for 32 x 24"),
    "height and width swapped": Case(c.swapped_sizes, ABC, ("size",), says="are swapped"),
    "images without masks": Case(
        c.without("masks/a.png", "masks/d.png"), ABC, ("missing-mask",), says="2 images"
    ),
    "masks without images": Case(
        c.without("images/a.png"), ABC, ("missing-partner",), says="1 mask without an image (a)"
    ),
    "files of pairs that are gone": Case(
        c.missing_in_pairs,
        ABC,
        ("missing-image", "missing-mask"),
        options={"pairs": "{split}.tsv"},
    ),
    "a list with an unknown name": Case(c.unknown_in_list, ABC, ("split",), says="nobody"),
    "no masks of val": Case(c.no_masks_of_val, ABC, ("split",), says="there is no folder"),
    "a leak": Case(c.copied("train/1", "val/4"), ABC, ("leak",), says="1 of train = 4 of val"),
    "a copy": Case(c.copied("train/0", "train/3"), ABC, ("duplicate",), notes_only=True),
    "a copy with another mask": Case(
        c.copied("train/0", "train/2", with_mask=False), ABC, ("duplicate-mask",)
    ),
    "an empty mask": Case(c.some_void, ABC, ("all-void",), notes_only=True),
    "only empty masks": Case(masks(255), ABC, ("all-void",)),
    "a class without pixels": Case(masks(0, 2), ABC, ("class-empty",), says="(door)"),
    "a class without pixels in val": Case(
        c.none_in_val, ABC, ("class-absent",), notes_only=True, says="in val (floor)"
    ),
}
CASES = RIGHT | NUMBERS | COLOURS | FILES


def make(case: Case, root: Path) -> tuple[Folder, dict[str, Any]]:
    folder = Folder(root)
    case.make(folder)
    options: dict[str, Any] = {"classes": list(case.classes)} if case.classes else {}
    return folder, options | case.options


def follow(proposal: Proposal, options: dict[str, Any]) -> dict[str, Any]:
    """Set what a proposal says, as a user does who pastes it."""
    key, _, text = proposal.setting.partition("=")
    return options | {key.removeprefix("data.options."): json.loads(text)}


@pytest.mark.parametrize("name", CASES)
def test_a_check_finds_what_is_wrong_and_nothing_else(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    folder, options = make(case, tmp_path)
    report = folder.check(options)
    assert sorted(finding.kind for finding in report.findings) == sorted(case.findings)
    assert {finding.kind for finding in report.findings} <= set(KINDS)
    assert report.ok == (case.notes_only or not case.findings)
    made = [proposal for finding in report.findings for proposal in finding.proposals]
    assert tuple(proposal.option for proposal in made) == case.proposals
    text = "\n".join(report.lines())
    assert case.says in text
    assert (text.splitlines()[-1] == "nothing is wrong") == (not case.findings)


@pytest.mark.parametrize("name", [n for n in CASES if CASES[n].proposals])
def test_no_proposal_changes_a_label_that_is_right(name: str, tmp_path: Path) -> None:
    folder, options = make(CASES[name], tmp_path)
    before = folder.read(options)
    for finding in folder.check(options).findings:
        for proposal in finding.proposals:
            if proposal.unfinished:
                continue
            after = folder.read(follow(proposal, options))
            for image, truth_hw in folder.truth.items():
                right_hw = before[image] == truth_hw
                np.testing.assert_array_equal(after[image][right_hw], truth_hw[right_hw])


@pytest.mark.parametrize("name", [n for n in CASES if CASES[n].mends is not None])
def test_the_right_proposal_mends_the_folder(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    folder, options = make(case, tmp_path)
    (finding,) = folder.check(options).findings
    assert case.mends is not None
    options = follow(finding.proposals[case.mends], options)
    for image, label_hw in folder.read(options).items():
        np.testing.assert_array_equal(label_hw, folder.truth[image])
    assert folder.check(options).ok or "class-empty" in {
        finding.kind for finding in folder.check(options).findings
    }


def test_a_turned_dataset_is_mended_by_turning_its_images(tmp_path: Path) -> None:
    folder, options = make(CASES["masks of turned images"], tmp_path)
    (finding,) = folder.check(options).findings
    assert not folder.check(follow(finding.proposals[0], options)).findings


def test_a_list_of_colours_is_refused_until_names_are_put_in(tmp_path: Path) -> None:
    folder, options = make(CASES["colours of nobody"], tmp_path)
    (finding,) = folder.check(options).findings
    (proposal,) = finding.proposals
    assert proposal.unfinished
    text = proposal.setting.partition("=")[2]
    with pytest.raises(Exception, match="'NAME' is neither a class nor 'ignore'"):
        folder.check(options | {"colours": json.loads(text)})
    for label, class_name in enumerate(ABC):
        rgb = str(list(c.RGB[label]))
        text = text.replace(f'"NAME": {rgb}', f'"{class_name}": {rgb}')
    options |= {"colours": json.loads(text)}
    assert not folder.check(options).findings
    for image, label_hw in folder.read(options).items():
        np.testing.assert_array_equal(label_hw, folder.truth[image])


def test_480_equal_mistakes_are_one_finding_with_three_names(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for number in range(48):
        folder.add(str(number), painted(several((0, 1, 2), 1), c.RGB)[0])
    (finding,) = folder.check({"classes": list(ABC)}).findings
    assert finding.count == 48
    assert len(finding.examples) == 3
    assert len(finding.lines()) == 2
    assert "(200, 0, 0) 33 %" in finding.lines()[0]


@pytest.mark.parametrize("name", ["images without masks", "masks without images"])
def test_a_subset_may_lack_partners(name: str, tmp_path: Path) -> None:
    folder, options = make(CASES[name], tmp_path)
    assert folder.check(options, subset=True).ok
    assert not folder.check(options).ok


def test_the_docs_explain_every_kind_of_finding() -> None:
    page = (Path(__file__).parents[3] / "docs/data-check.md").read_text()
    rows = page.split("## Findings")[1]
    assert [kind for kind in KINDS if f"`{kind}`" not in rows] == []
