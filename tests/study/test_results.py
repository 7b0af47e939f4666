"""The table, the HTML page, the Markdown and the JSON of a study agree."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from reconet.errors import RecipeError
from reconet.recipes import apply_overrides, find_recipe
from reconet.study import (
    STUDIES,
    StudyResult,
    choose_variants,
    collect_result,
    conditions,
    difference,
    make_trials,
    open_study,
)
from reconet.study.page import attention_table, render_html, render_markdown, score_table
from reconet.study.plots import draw_figures
from tests.study.tiny_study import study_recipe


def test_tables_page_and_markdown_say_the_same(finished: StudyResult) -> None:
    json.dumps(finished.as_dict(), allow_nan=False)
    row = next(row for row in score_table(finished).rows if row[0] == "tgm_trm")
    score = next(r for r in finished.rows if r.variant == "tgm_trm").score
    assert score is not None
    assert score.half_width is not None
    assert row[1:4] == [f"{100 * score.mean:.2f}", f"± {100 * score.half_width:.2f}", "2"]
    assert row[-1] == "78.6"
    assert f"<td>{row[1]}</td>" in render_html(finished)
    assert f"| tgm_trm | {row[1]} |" in render_markdown(finished)
    assert set(draw_figures(finished)) == {"scores", "differences", "training"}


@pytest.mark.parametrize(
    ("study", "variants", "told", "left_out"),
    [
        ("project", "full,p512", "rank 4", "projected"),
        ("rank", "r1,r4", "projected to 8 components", "rank"),
        ("attention", "paper,plus", "projected to 8 components, rank 4", "each context"),
    ],
)
def test_what_the_variants_set_themselves_is_no_condition(
    study: str, variants: str, told: str, left_out: str, tmp_path: Path
) -> None:
    recipe = apply_overrides(study_recipe(), ["model.project=8", "model.rank=4"])
    chosen = choose_variants(STUDIES[study], variants.split(","), quick=False)
    trials = make_trials(chosen, recipe, [0], tmp_path)
    network = dict(conditions(collect_result(STUDIES[study], recipe, trials, tmp_path)))["network"]
    assert told in network
    assert left_out not in network


def test_every_variant_is_compared_with_the_chosen_baseline(finished: StudyResult) -> None:
    assert finished.baseline == "fcn"  # the study's own baseline is not among the trials
    other = open_study(finished.out, "tgm_trm")
    for result, base, row in ((finished, "fcn", "tgm_trm"), (other, "tgm_trm", "fcn")):
        rows = {row.variant: row for row in result.rows}
        scores = {
            name: {trial.seed: trial.figures["miou"] for trial in rows[name].trials}
            for name in (base, row)
        }
        expected = difference(scores[row], scores[base])
        found = rows[row].difference
        assert expected is not None
        assert found is not None
        assert (found.mean, found.count) == (expected.mean, 2)
        assert found.half_width == pytest.approx(expected.half_width)  # of two variants: Student's
        assert rows[row].difference_by_seed == {s: scores[row][s] - scores[base][s] for s in (0, 1)}
        assert rows[base].difference is None
        line = next(line for line in score_table(result).rows if line[0] == row)
        assert line[4] == f"{100 * expected.mean:+.2f}"
        values = result.as_dict()
        assert values["baseline"] == base
        [told] = [r["difference"] for r in values["rows"] if r["variant"] == row]
        assert told == asdict(found)
    with pytest.raises(RecipeError, match="baseline"):
        open_study(finished.out, "gpm")


def test_what_is_lost_by_a_mean_attention_has_a_table_of_its_own(finished: StudyResult) -> None:
    rows = {row.variant: row for row in finished.rows}
    lost, with_mean = rows["tgm_trm"].lost_with_mean, rows["tgm_trm"].with_mean
    score = rows["tgm_trm"].score
    assert lost is not None
    assert with_mean is not None
    assert score is not None
    assert lost.mean == pytest.approx(score.mean - with_mean.mean)
    lines = {line[0]: line for line in attention_table(finished).rows}
    assert lines["tgm_trm"][2:4] == [f"{100 * with_mean.mean:.2f}", f"{100 * lost.mean:+.2f}"]
    assert "fcn" not in lines


def test_names_and_settings_are_escaped(finished: StudyResult) -> None:
    evil = apply_overrides(finished.recipe, ['data.options.classes="<script>alert(1)</script>"'])
    page = render_html(replace(finished, recipe=evil, missing=("<b>x</b>",)))
    assert "<script>" not in page
    assert "<b>x</b>" not in page


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


def test_figures_show_the_numbers(finished: StudyResult) -> None:
    rows = {row.variant: row for row in finished.rows}
    (axes,) = draw_figures(finished)["differences"].axes
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == [row.variant for row in finished.rows if row.difference is not None]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    for name, line in zip(names, dots, strict=True):
        by_seed = [100 * value for value in rows[name].difference_by_seed.values()]
        assert np.asarray(line.get_xdata()) == pytest.approx(by_seed)
    left, _ = draw_figures(replace(finished, study=STUDIES["rank"]))["spectrum"].axes
    spectra = [[one.spectrum for one in row.trials if one.spectrum] for row in finished.rows]
    means = [np.mean([one.effective["row"] for one in some]) for some in spectra if some]
    (drawn,) = [line for line in left.lines if line.get_label() == "row"]
    assert means
    assert np.asarray(drawn.get_ydata()) == pytest.approx(means)
    assert "cost" in draw_figures(replace(finished, study=STUDIES["contexts"]))


def test_what_has_nothing_to_show_is_not_drawn(finished: StudyResult, tmp_path: Path) -> None:
    trials = make_trials(finished.study.variants()[:2], finished.recipe, (0,), tmp_path)
    assert draw_figures(collect_result(STUDIES["rank"], finished.recipe, trials, tmp_path)) == {}
