"""A study that is missing in docs/studies.md names the command that runs it."""

import re
import shlex
from pathlib import Path

import pytest

from reconet.cli import main
from tools.make_studies import PAGE, PLACE, page

EMPTY = "## Rank\n\n<!-- study runs/study-rank-quick -->\n<!-- end -->\n"


def test_a_study_that_is_not_there_says_how_to_run_it_in_one_line(tmp_path: Path) -> None:
    made = page(EMPTY, tmp_path)
    match = PLACE.search(made)
    assert match is not None
    assert match[3] == "\nnot run yet: `reconet study rank --quick`\n\n"
    assert page(made, tmp_path) == made


def test_results_of_another_machine_are_kept(tmp_path: Path) -> None:
    text = EMPTY.replace("<!-- end", "| variant | 1.0 |\n<!-- end")
    assert page(text, tmp_path) == text


def test_no_study_of_the_page_is_an_empty_heading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PAGE.read_text()
    assert page(text, tmp_path) == text, "run `python -m tools.make_studies`"
    for match in PLACE.finditer(text):
        assert match[3].strip(), match[2]
    for command in re.findall(
        "not run yet: `reconet (.*)`", page(re.sub(PLACE, r"\1\4", text), tmp_path)
    ):
        assert main([*shlex.split(command), "--list"]) == 0, command
    capsys.readouterr()
