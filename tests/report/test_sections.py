"""The sections of a report, without a run on disk."""

from dataclasses import replace
from pathlib import Path

import numpy as np

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
