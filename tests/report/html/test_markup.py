"""Markup: text from outside is always escaped."""

from reconet.report.html.markup import Markup, join, percent, tag


def test_only_markup_is_not_escaped() -> None:
    assert tag("p", "<b>", Markup("<i>x</i>")) == "<p>&lt;b&gt;<i>x</i></p>"
    assert (
        tag("rect", class_="a", fill_opacity=0.5, id=None) == '<rect class="a" fill-opacity="0.5"/>'
    )
    assert tag("p", title='"><script>') == '<p title="&quot;&gt;&lt;script&gt;"></p>'
    assert join(["<", Markup("<br/>")]) == "&lt;<br/>"


def test_a_fraction_that_is_absent_is_no_number() -> None:
    assert percent(0.125) == "12.5\u00a0%"
    assert percent(0.125, digits=2) == "12.50\u00a0%"
    assert percent(None) == percent(float("nan")) == "-"
    assert percent(None, absent="absent") == "absent"
