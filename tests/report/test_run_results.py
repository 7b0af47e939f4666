"""What a report reads from a run, and what it says about parts that are missing."""

from pathlib import Path

import pytest

from reconet.report.run_results import describe_settings
from reconet.system.run_files import LOG
from tests.pages import Page
from tests.report.helpers import make_run, report, small_recipe


def test_what_is_missing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    without_best = make_run(tmp_path / "a", small_recipe(), best=False)
    code, _, err = report(capsys, without_best)
    assert "a: there is no best.safetensors" in err, "also where nobody opens the page"
    page = Page((without_best / "report.html").read_text())
    assert code == 0
    assert "There is no best.safetensors" in page.text
    assert "mIoU, logged at step 50" in page.text

    without_log = make_run(tmp_path / "b", small_recipe(), log=False)
    code, _, _ = report(capsys, without_log)
    page = Page((without_log / "report.html").read_text())
    assert code == 0
    assert "The log has no training steps yet" in page.text
    assert "The run was never validated" in page.text
    assert len(page.all("img")) == 3 * 4

    (without_best / LOG).write_text('{"kind": "train", "step": 10, "loss": NaN}\n[1]\n{"kind"')
    code, _, _ = report(capsys, without_best, without_log, "--out", tmp_path / "c.html")
    page = Page((tmp_path / "c.html").read_text())
    assert code == 0
    assert "a: the run was never validated" in page.text
    assert "Not finite, so not drawn: 1 value." in page.text


def test_a_setting_is_marked_if_it_differs_from_its_default() -> None:
    changed = {s.name for s in describe_settings(small_recipe()) if s.changed}
    assert {"data.name", "data.crop", "model.rank", "train.steps"} <= changed
    assert not {"optim.momentum", "data.root", "eval.scales"} & changed
