"""A table of folders, right and wrong: what a check finds, proposes, and must never propose."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reconet.data.check import Proposal
from reconet.data.dataset_file import dataset_settings
from tests.data.check import cases as c
from tests.data.check.cases import ABC, Case, coloured
from tests.data.check.folders import Folder, painted, several
from tests.data.check.table import CASES, FILES, NOTHING_RIGHT, NUMBERS


def make(case: Case, root: Path) -> tuple[Folder, dict[str, Any]]:
    folder = Folder(root)
    case.make(folder)
    options: dict[str, Any] = {"classes": list(case.classes)} if case.classes else {}
    return folder, options | case.options


def follow(proposal: Proposal, options: dict[str, Any]) -> dict[str, Any]:
    """Set what a proposal says, as a user does who pastes it."""
    settings = [one.removeprefix("data.options.").partition("=") for one in proposal.settings]
    return options | {key: json.loads(text) for key, _, text in settings}


@pytest.mark.parametrize("name", CASES)
def test_a_check_finds_what_is_wrong_and_nothing_else(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    folder, options = make(case, tmp_path)
    report = folder.check(options)
    assert sorted(finding.kind for finding in report.findings) == sorted(case.findings)
    assert report.ok == (case.notes_only or not case.findings)
    made = [proposal for finding in report.findings for proposal in finding.proposals]
    assert tuple(proposal.option for proposal in made) == case.proposals
    text = "\n".join(report.lines())
    assert case.says in text
    assert (text.splitlines()[-1] == "nothing is wrong") == (not case.findings)


@pytest.mark.parametrize("name", [n for n in NUMBERS if NUMBERS[n].proposals])
def test_no_proposal_changes_a_label_that_is_right(name: str, tmp_path: Path) -> None:
    folder, options = make(CASES[name], tmp_path)
    before = folder.read(options)
    some = any((before[image] == truth_hw).any() for image, truth_hw in folder.truth.items())
    assert some == (name not in NOTHING_RIGHT)
    for finding in folder.check(options).findings:
        for proposal in finding.proposals:
            if "0 is void" in proposal.condition and CASES[name].mends != 2:
                continue  # its condition does not hold
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


@pytest.mark.parametrize("name", [n for n in FILES if FILES[n].findings[0].startswith("split-")])
def test_proposed_splits_mend_the_folder(name: str, tmp_path: Path) -> None:
    folder, options = make(CASES[name], tmp_path)
    (finding,) = folder.check(options).findings
    (proposal,) = finding.proposals
    report = folder.check(follow(proposal, options))
    assert not report.findings
    assert [one.split for one in report.splits][:2] == ["train", "val"]


def test_a_colour_is_no_number_in_the_table_of_values(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    coloured({0: (0, 0, 0), 1: (0, 0, 1), 2: (0, 0, 2)})(folder)
    report = folder.check({"classes": list(ABC)})
    assert {one.means for one in report.seen} == {""}


def test_proposals_can_be_pasted_into_the_file_that_describes_the_dataset(tmp_path: Path) -> None:
    folder, options = make(CASES["one name, 0 and 255"], tmp_path)
    path = tmp_path / "mine.yaml"
    _, _, first, *entries, _ = folder.check(options).lines(path.name)
    assert first == "  if 0 means background and 255 means crack, write into mine.yaml:"
    path.write_text("\n".join(entry.strip() for entry in entries))
    settings = dict(one.split("=", 1) for one in dataset_settings(path))
    assert folder.check(json.loads(settings["data.options"])).ok


def test_a_list_of_colours_is_refused_until_names_are_put_in(tmp_path: Path) -> None:
    folder, options = make(CASES["colours of nobody"], tmp_path)
    (finding,) = folder.check(options).findings
    (proposal,) = finding.proposals
    assert proposal.unfinished
    text = proposal.settings[0].partition("=")[2]
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
    kinds = {kind for case in CASES.values() for kind in case.findings}
    assert [kind for kind in kinds | {"count", "name-twice"} if f"`{kind}`" not in rows] == []
