"""The documents of studies: what is not there says how to get it, and no page tells whose disk."""

import re
import shlex
from pathlib import Path

import pytest

from reconet.cli import main
from reconet.recipes import find_recipe
from reconet.recipes.overrides import apply_overrides
from reconet.study.variants import STUDIES
from reconet.study.page import html, markdown
from reconet.study.result import StudyResult
from reconet.system.paths import short_path, short_paths, short_words
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


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/home/me/weights/resnet50.safetensors", "resnet50.safetensors"),
        ("/data/voc/", "voc"),
        ("../elsewhere/voc", "voc"),
        ("~/voc", "voc"),
        (r"C:\Users\me\voc", "voc"),
        ("data/voc", "data/voc"),
        ("imagenet", "imagenet"),
        ("..", ".."),
        ("/", "/"),
        ("", ""),
    ],
)
def test_a_path_that_leads_elsewhere_is_its_last_name(path: str, shown: str) -> None:
    assert short_path(path) == shown
    assert short_paths({"a": [path, 1, None]}) == {"a": [shown, 1, None]}


def test_a_sentence_keeps_everything_but_the_places() -> None:
    text = "fcn seed 1: cannot read /home/me/a.jpg: no such file; and/or more"
    assert short_words(text) == "fcn seed 1: cannot read a.jpg: no such file; and/or more"


def test_neither_document_of_a_study_tells_where_its_files_are(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    places = [
        f"data.root={secret / 'voc'}",
        f"model.weights={secret / 'resnet50_imagenet1k_caffe.safetensors'}",
        f"train.init_from={secret / 'first'}",
    ]
    result = StudyResult(
        study=STUDIES["rank"],
        recipe=apply_overrides(find_recipe("voc12/reconet_r50"), places),
        seeds=(0,),
        rows=(),
        missing=(f"r1 seed 0: cannot read {secret / 'a.jpg'}",),
        out=secret,
    )
    for made in (html(result), markdown(result)):
        assert "secret" not in made
        assert "from resnet50_imagenet1k_caffe.safetensors" in made
        assert "cannot read a.jpg" in made
