"""The table, the HTML page, the Markdown and the JSON of a study agree."""

import json
from dataclasses import replace

from reconet.recipes.overrides import apply_overrides
from reconet.study.page import render_html, render_markdown
from reconet.study.plots import draw_figures
from reconet.study.result import StudyResult, table_rows


def test_tables_page_and_markdown_say_the_same(finished: StudyResult) -> None:
    json.dumps(finished.as_dict(), allow_nan=False)
    row = next(row for row in table_rows(finished) if row[0] == "tgm_trm")
    score = next(r for r in finished.rows if r.variant == "tgm_trm").score
    assert score is not None
    assert score.half_width is not None
    assert row[1:4] == [f"{100 * score.mean:.2f}", f"± {100 * score.half_width:.2f}", "2"]
    assert row[-1] == "78.6"
    assert f"<td>{row[1]}</td>" in render_html(finished)
    assert f"| tgm_trm | {row[1]} |" in render_markdown(finished)
    assert set(draw_figures(finished)) == {"scores", "training"}


def test_names_and_settings_are_escaped(finished: StudyResult) -> None:
    evil = apply_overrides(finished.recipe, ['data.options.classes="<script>alert(1)</script>"'])
    page = render_html(replace(finished, recipe=evil, missing=("<b>x</b>",)))
    assert "<script>" not in page
    assert "<b>x</b>" not in page
