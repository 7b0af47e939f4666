"""The sections of a report, without a run on disk."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from reconet.recipes import apply_overrides
from reconet.report import sections
from reconet.report.run_results import RunResults, ValidationResults
from tests.report.helpers import small_recipe


def test_a_dataset_is_shown_with_the_scores_that_it_is_quoted_by() -> None:
    scores = {"miou": 0.25, "challenge": 0.375, "pixel_accuracy": 0.5}
    validation = ValidationResults(
        step=1,
        classes=("a",),
        palette=((0, 0, 0),),
        count_kk=np.ones((1, 1), np.int64),
        scores=scores,
        iou=(0.25,),
        image_rows=(),
        protocol="whole",
        images=1,
    )
    own = RunResults(
        name="own", directory=Path("a"), recipe=small_recipe(), log=(), validation=validation
    )
    none = replace(own, name="none", validation=None)
    for text in (sections.key_figures(own), sections.scores_table([own, none])):
        assert "challenge score" in text
        assert "37.5" in text
        assert "59 classes" not in text


def test_a_winner_is_bold_only_among_runs_that_can_be_compared() -> None:
    def result(name: str, root: str, miou: float) -> RunResults:
        recipe = apply_overrides(small_recipe(), ["data.name=folder", f"data.root=/data/{root}"])
        validation = ValidationResults(
            step=1,
            classes=("a",),
            palette=((0, 0, 0),),
            count_kk=np.ones((1, 1), np.int64),
            scores={"miou": miou},
            iou=(miou,),
            image_rows=(),
            protocol="whole",
            images=1,
        )
        return RunResults(
            name=name, directory=Path(name), recipe=recipe, log=(), validation=validation
        )

    one, two, other = (
        result("one", "roads", 0.3),
        result("two", "roads", 0.4),
        result("o", "x", 0.9),
    )
    text = sections.scores_table([one, two, other])
    assert "folder roads val" in text
    assert "folder x val" in text
    assert [part[:4] for part in text.split('class="best">')[1:]] == ["40.0"]
    assert "not all scored on the same images" in text
    assert "not all scored" not in sections.scores_table([one, two])
