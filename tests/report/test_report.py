"""A report is one file that a browser understands and that loads nothing. Names stay text."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from PIL import Image

from reconet import Recipe
from reconet.evaluation import keep_validation
from reconet.recipes import apply_overrides, find_recipe
from tests.cli.run import run as run_verb
from tests.data.trees import OPTIONS, make_tree
from tests.factories import tiny_network, tiny_recipe, write_run
from tests.pages import EVIL, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


def small_recipe(*settings: str) -> Recipe:
    few = ["data.options.val=3", "data.options.size=[40, 48]", "data.crop=32x48"]
    return tiny_recipe(*few, *settings)


def make_run(
    directory: Path,
    recipe: Recipe,
    *,
    best: bool = True,
    log: bool = True,
    classes: tuple[str, ...] | None = None,
) -> Path:
    """Write a run directory as a training leaves it, perhaps without network or log."""
    write_run(directory, tiny_network(recipe, classes=classes, step=50), log=log)
    if not best:
        (directory / "best.safetensors").unlink()
    return directory


def report(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    return run_verb(capsys, "report", "--device=cpu", *map(str, arguments))


def assert_alone(text: str) -> None:
    """Assert that nothing in the file makes a browser load anything."""
    page = Page(text)
    for _, attributes in page.tags:
        for name in ("src", "href", "srcset", "action", "data", "poster", "xlink:href"):
            assert (attributes.get(name) or "data:").startswith("data:")
        assert "url(" not in (attributes.get("style") or "")
        assert not any(name.startswith("on") for name in attributes)
    assert not page.all("script")
    assert not page.all("link")
    styles = "".join(re.findall(r"<style>(.*?)</style>", text, re.S))
    assert "@import" not in styles
    assert "url(" not in styles
    assert "default-src 'none'" in str(page.all("meta"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "one", small_recipe())


def test_a_report_is_one_balanced_page_with_everything_in_it(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = report(capsys, run, "--images=2")
    assert (code, out) == (0, f"{run / 'report.html'}\n"), err
    text = (run / "report.html").read_text()
    assert_alone(text)
    page = Page(text)
    images = page.all("img")
    assert len(images) == 2 * 4
    assert all(image["alt"] for image in images)
    for heading in ("Curves", "IoU of each class", "Confusion", "Images", "Recipe"):
        assert heading in page.text
    charts = page.all("svg")
    assert len(charts) == 7
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in charts)
    assert "mountain" in page.text
    assert "Scenes are hard on purpose" in page.text
    assert "model.rank 4 ranks of a low-rank tensor" in page.text
    assert "width=device-width" in str(page.all("meta"))
    assert f"reconet report {run}" in page.text


def test_names_with_markup_stay_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    make_tree("folder", data)
    names = json.dumps([f"{EVIL}{k}" for k in range(len(OPTIONS["folder"]["classes"]))])  # type: ignore[arg-type]
    recipe = apply_overrides(
        find_recipe("folder/reconet"),
        [
            f"data.root={data}",
            f"data.options.classes={names}",
            *("data.crop=64", "data.workers=0", "model.width=0.125", "model.weights=null"),
            *("model.rank=2", "model.backbone=resnet18"),
        ],
    )
    make_run(tmp_path / "<img src=x onerror=1>", recipe)
    code, out, err = report(capsys, tmp_path / "<img src=x onerror=1>")
    assert code == 0, err
    text = Path(out.strip()).read_text()
    assert_alone(text)
    assert "<script" not in text
    assert EVIL in Page(text).text
    assert "could not be scored" not in text


def test_mistakes_are_one_line(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = make_run(tmp_path / "nothing", small_recipe(), best=False, log=False)
    for arguments, message in [
        ((tmp_path / "none",), "holds no run"),
        ((tmp_path,), "holds no run"),
        ((nothing,), "nothing to report yet"),
        ((run, run), "named twice"),
        ((run, "--out", "/proc/none/x.html"), "cannot write"),
        ((run, "--device=tpu7"), "no device 'tpu7'"),
        ((run, "--images=-1"), "images"),
        ((), "Missing argument"),
    ]:
        code, out, err = report(capsys, *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert message in err


def test_a_report_that_cannot_be_written_fails_before_anything_is_scored(
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reconet.report.report.read_run", lambda *a, **k: pytest.fail("scored"))
    (tmp_path / "mine.html").write_text("<title>mine</title>")
    for out, message in {
        tmp_path / "mine.html": "exists and is another kind of file",
        tmp_path / "mine.html" / "r.html": "is a file",
    }.items():
        code, _, err = report(capsys, run, "--out", out)
        assert code == 2
        assert message in err
    assert (tmp_path / "mine.html").read_text() == "<title>mine</title>"


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt-get install chromium")
def test_a_browser_shows_it_and_complains_about_nothing(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert CHROMIUM is not None
    report(capsys, run, "--images=2", "--out", tmp_path / "r.html")
    shot = tmp_path / "shot.png"
    quiet = [f"--disable-{x}" for x in ("gpu", "background-networking", "component-update", "sync")]
    done = subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--no-first-run", *quiet),
            *("--enable-logging=stderr", "--host-resolver-rules=MAP * ~NOTFOUND"),
            *(f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={shot}"),
            *("--window-size=400,900", f"file://{tmp_path / 'r.html'}"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert shot.is_file(), done.stderr
    assert "CONSOLE" not in done.stderr, done.stderr
    with Image.open(shot) as image:
        assert len(image.convert("RGB").getcolors(2**24) or []) > 50


def test_the_report_tells_on_what_a_run_was_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", small_recipe(), best=False)
    report(capsys, run)
    assert "did not record the machine" in (run / "report.html").read_text()
    lines = [{"kind": "start", "step": step, "torch": "2.1"} for step in (0, 20)]
    lines.append({"kind": "start", "step": 30, "torch": "<b>bold</b>"})
    (run / "starts.jsonl").write_text("\n".join(map(json.dumps, lines)) + '\n{"kind": "sta')
    report(capsys, run)
    text = (run / "report.html").read_text()
    rows = re.findall(r"<tr>(.*?)</tr>", text.split("Trained on")[1], re.S)
    assert len(rows) == 4
    assert "2.1" in rows[1]
    assert [re.findall(r"<td[^>]*>(.*?)</td>", row)[0] for row in rows[1:]] == ["0", "20", "30"]
    assert "&lt;b&gt;bold" in rows[3]


def test_the_report_changes_nothing_about_the_run(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {p.name: p.read_bytes() for p in run.iterdir() if p.name != "report.html"}
    report(capsys, run)
    after = {p.name: p.read_bytes() for p in run.iterdir() if p.name != "report.html"}
    assert before == after
    assert torch.is_grad_enabled()


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

    (without_best / "log.jsonl").write_text(
        '{"kind": "train", "step": 10, "loss": NaN}\n[1]\n{"kind"'
    )
    code, _, _ = report(capsys, without_best, without_log, "--out", tmp_path / "c.html")
    page = Page((tmp_path / "c.html").read_text())
    assert code == 0
    assert "a: the run was never validated" in page.text
    assert "Not finite, so not drawn: 1 value." in page.text


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
    assert "\u202e" not in page.text
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
    assert "roads, val" in text
    assert "x, val" in text
    assert [part[:4] for part in text.split('class="best">')[1:]] == ["50.0", *["66.7"] * 2, "50.0"]
    assert "not all scored on the same images" in text
    report(capsys, *runs[:2], "--out", tmp_path / "r.html")
    assert "not all scored" not in (tmp_path / "r.html").read_text()
