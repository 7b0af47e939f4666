"""The documents of a study."""

from pathlib import Path

import pytest

from reconet.recipes import find_recipe
from reconet.recipes.overrides import apply_overrides
from reconet.study.page import render_html, render_markdown
from reconet.study.result import StudyResult
from reconet.study.variants import STUDIES


@pytest.mark.parametrize(
    ("setting", "name"), [("model.weights", "resnet50.safetensors"), ("train.init_from", "first")]
)
def test_neither_document_of_a_study_shows_where_its_files_are(
    tmp_path: Path, setting: str, name: str
) -> None:
    secret = tmp_path / "secret"
    places = [f"data.root={secret / 'voc'}", f"{setting}={secret / name}"]
    result = StudyResult(
        study=STUDIES["rank"],
        recipe=apply_overrides(find_recipe("voc12/reconet_r50"), places),
        seeds=(0,),
        baseline="r64",
        spread=None,
        rows=(),
        missing=(f"r1 seed 0: cannot read {secret / 'a.jpg'}",),
        out=secret,
    )
    for made in (render_html(result), render_markdown(result)):
        assert "secret" not in made
        assert f"weights from {name}" in made
        assert "cannot read a.jpg" in made
