"""Several runs on one page."""

from pathlib import Path

import pytest
import torch

from reconet.evaluation import keep_validation
from reconet.system.readable import UNPRINTABLE
from tests.factories import tiny_network, write_run
from tests.pages import Page
from tests.report.helpers import assert_alone, make_run, report, small_recipe


def test_two_runs_are_compared(
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    other = make_run(tmp_path / "two", small_recipe("model.context=fcn", "optim.lr=0.5"))
    code, out, err = report(capsys, run, other, "--images=2")
    assert (code, out) == (0, "report.html\n"), err
    text = (tmp_path / "report.html").read_text()
    assert_alone(text)
    page = Page(text)
    assert len(page.all("img")) == 2 * 4  # image, truth, one, two
    assert "setting one two optim.lr 0.02 0.5" in page.text.replace(
        "model.context reconet fcn ", ""
    )
    loss = next(svg for svg in page.all("svg") if "Loss" in (svg["aria-label"] or ""))
    assert "one: 3 at step 10" in (loss["aria-label"] or "")
    assert "two: 3 at step 10" in (loss["aria-label"] or "")


def test_runs_with_other_classes_are_compared_without_classes(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_run(tmp_path / "other", small_recipe(), classes=("a", "b"))
    code, _, _ = report(capsys, run, other, "--out", tmp_path / "r.html")
    page = Page((tmp_path / "r.html").read_text())
    assert code == 0
    assert "other: the best network could not be scored: it knows" in page.text
    smaller = make_run(tmp_path / "sm\u202eall", small_recipe("data.options.val=2"))
    report(capsys, run, smaller, "--out", tmp_path / "r.html")
    page = Page((tmp_path / "r.html").read_text())
    assert not UNPRINTABLE.search(page.text)
    assert "were scored on different images" in page.text
    assert len(page.all("img")) == (3 + 2) * 4  # each has its own


def test_a_winner_is_bold_only_among_runs_that_can_be_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The datasets are not here any more: what the trainings kept is enough.
    counts = {"one": ("roads", 1), "two": ("roads", 2), "other": ("x", 9)}
    for name, (root, right) in counts.items():
        recipe = small_recipe("data.name=folder", f"data.root=/data/{root}")
        trained = tiny_network(recipe, classes=("a", "b"), palette=((0, 0, 0), (9, 9, 9)))
        count_kk = torch.tensor([[right, 1], [1, right]])
        keep_validation(write_run(tmp_path / name, trained), trained.info, 4, count_kk)
    runs = [tmp_path / name for name in counts]
    code, _, err = report(capsys, *runs, "--out", tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert code == 0, err
    assert "the images cannot be shown" in Page(text).text
    assert "folder roads val" in text
    assert "folder x val" in text
    assert [part[:4] for part in text.split('class="best">')[1:]] == ["50.0", *["66.7"] * 2, "50.0"]
    assert "not all scored on the same images" in text
    report(capsys, *runs[:2], "--out", tmp_path / "r.html")
    assert "not all scored" not in (tmp_path / "r.html").read_text()
