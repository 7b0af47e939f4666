"""The table, the HTML page, the Markdown and the JSON of a study agree."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from reconet.errors import RecipeError
from reconet.recipes import apply_overrides, find_recipe
from reconet.study import STUDIES, difference, open_study
from reconet.study.page import attention_table, render_html, render_markdown, score_table
from reconet.study.plots import draw_figures
from reconet.study.results import Spread, StudyResult, collect_result, conditions
from reconet.study.trial import make_trials
from reconet.study.variants import choose_variants
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


def test_the_caption_says_where_the_intervals_of_differences_come_from(
    finished: StudyResult,
) -> None:
    shared = replace(finished, spread=Spread(0.005, 62))
    assert any("0.50 points (62 degrees" in line for line in score_table(shared).caption)
    assert shared.as_dict()["spread"] == {"deviation": 0.005, "freedom": 62}
    own = replace(finished, spread=None)
    assert any("an interval of its own" in line for line in score_table(own).caption)
    assert own.as_dict()["spread"] is None


def test_the_report_says_what_was_trained_and_scored_on(finished: StudyResult) -> None:
    for text in (render_html(finished), render_markdown(finished)):
        assert "scenes train, crop 64 x 64" in text
        assert "scenes val" in text
    values = finished.as_dict()
    assert (values["trained_on"], values["scored_on"]) == ("train", "val")


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


def test_a_ranked_study_begins_with_the_best(finished: StudyResult) -> None:
    ranked = replace(finished.study, ranked=True)
    trials = make_trials(ranked.variants()[:5], finished.recipe, (0, 1), finished.out)
    scores = [
        row.score for row in collect_result(ranked, finished.recipe, trials, finished.out).rows
    ]
    means = [score.mean for score in scores if score is not None]
    assert len(means) > 1
    assert means == sorted(means, reverse=True)
    assert scores[len(means) :] == [None] * (len(scores) - len(means))


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
