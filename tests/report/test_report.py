"""A report is one file that a browser understands, that asks nobody, and that nobody can inject."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from reconet.cli import main
from reconet.engine.rundir import note_start
from reconet.models.network_info import NetworkInfo
from reconet.models.segmenter import build_model
from reconet.models.trained import TrainedNetwork, save_trained
from reconet.recipes import find_recipe
from reconet.recipes.overrides import apply_overrides
from reconet.recipes.schema import Recipe
from reconet.recipes.storage import write_recipe
from reconet.report import run_names, sections
from reconet.report.gather import Answers, Gathered, settings
from reconet.system.distributed import World
from reconet.system.run_files import BEST, LOG, RECIPE, STARTS
from tests.pages import EVIL, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


def tiny(*changes: str) -> Recipe:
    few = ["data.options.val=3", "data.options.size=[40, 48]", "data.crop=32x48"]
    return apply_overrides(find_recipe("scenes/tiny"), [*few, *changes])


def make_run(
    directory: Path,
    recipe: Recipe,
    *,
    best: bool = True,
    log: bool = True,
    classes: tuple[str, ...] | None = None,
) -> Path:
    """A run directory as a training leaves it, without the training."""
    from reconet.data import open_dataset

    directory.mkdir(parents=True)
    write_recipe(recipe, directory / RECIPE)
    info = open_dataset(recipe.data.name, "val", recipe.data.root, recipe.data.options).info
    names = classes or info.classes
    lines: list[dict[str, object]] = []
    for step in range(10, 60, 10):
        lines.append({"kind": "train", "step": step, "loss": 30 / step, "lr": 0.01 - step / 1e4})
        alive = {"attention_spread": 0.1, "effective_rank": 1.2, "lambda_spread": step / 1e6}
        val = {"miou": step / 100, "pixel_accuracy": 0.5, "iou": [0.1] * len(names)}
        lines.append({"kind": "val", "step": step, **val, **alive})
    if log:
        (directory / LOG).write_text("".join(json.dumps(line) + "\n" for line in lines))
    if best:
        model = build_model(recipe, len(names), pretrained=False)
        save_trained(
            directory / BEST,
            TrainedNetwork(
                model=model,
                info=NetworkInfo(
                    recipe=recipe,
                    classes=names,
                    palette=tuple((7 * k % 256, 80, 160) for k in range(len(names))),
                    step=50,
                    score={"miou": 0.5},
                ),
            ),
        )
    return directory


def report(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["report", "--device=cpu", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def assert_alone(text: str) -> None:
    """Nothing in the file makes a browser ask for anything."""
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
    return make_run(tmp_path_factory.mktemp("runs") / "one", tiny())


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
    charts = [svg for svg in page.all("svg") if svg["class"] == "plot"]
    assert len(charts) == 7
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in charts)
    assert "mountain" in page.text
    assert "model.rank 4 number of rank-one tensors" in page.text
    assert "width=device-width" in str(page.all("meta"))
    assert f"reconet report {run}" in page.text


def test_two_runs_are_compared(
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    other = make_run(tmp_path / "two", tiny("model.context=fcn", "optim.lr=0.5"))
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


def test_names_with_markup_stay_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    from tests.data.trees import OPTIONS, make_tree

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
    assert "could not be asked" not in text


def test_what_is_missing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    without_best = make_run(tmp_path / "a", tiny(), best=False)
    code, _, _ = report(capsys, without_best)
    page = Page((without_best / "report.html").read_text())
    assert code == 0
    assert "There is no best.safetensors" in page.text
    assert "mIoU, logged at step 50" in page.text

    without_log = make_run(tmp_path / "b", tiny(), log=False)
    code, _, _ = report(capsys, without_log)
    page = Page((without_log / "report.html").read_text())
    assert code == 0
    assert "Its log holds no training yet" in page.text
    assert "It was never validated" in page.text
    assert len(page.all("img")) == 3 * 4

    (without_best / LOG).write_text('{"kind": "train", "step": 10, "loss": NaN}\n[1]\n{"kind"')
    code, _, _ = report(capsys, without_best, without_log, "--out", tmp_path / "c.html")
    page = Page((tmp_path / "c.html").read_text())
    assert code == 0
    assert "a: it was never validated" in page.text
    assert "1 values are no finite numbers" in page.text


def test_runs_with_other_classes_are_compared_without_classes(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_run(tmp_path / "other", tiny(), classes=("a", "b"))
    code, _, _ = report(capsys, run, other, "--out", tmp_path / "r.html")
    page = Page((tmp_path / "r.html").read_text())
    assert code == 0
    assert "other: its best network could not be asked: it knows" in page.text
    smaller = make_run(tmp_path / "small", tiny("data.options.val=2"))
    report(capsys, run, smaller, "--out", tmp_path / "r.html")
    page = Page((tmp_path / "r.html").read_text())
    assert "were scored on different images" in page.text
    assert len(page.all("img")) == (3 + 2) * 4  # each has its own


def test_mistakes_are_one_line(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = make_run(tmp_path / "nothing", tiny(), best=False, log=False)
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


def test_a_place_that_a_report_cannot_have_is_told_before_anything_is_scored(
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reconet.report.gather", lambda *a, **k: pytest.fail("scored"))
    (tmp_path / "mine.html").write_text("<title>mine</title>")
    for out, message in {
        tmp_path / "mine.html": "is there and something else",
        tmp_path / "mine.html" / "r.html": "is a file",
    }.items():
        code, _, err = report(capsys, run, "--out", out)
        assert code == 2
        assert message in err
    assert (tmp_path / "mine.html").read_text() == "<title>mine</title>"


def test_a_report_is_written_again(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert report(capsys, run, "--images=0", "--out", tmp_path / "r.html")[0] == 0


def test_a_dataset_is_shown_with_the_scores_that_it_is_quoted_by() -> None:
    figures = {"miou": 0.25, "challenge": 0.375, "pixel_accuracy": 0.5}
    answers = Answers(
        step=1,
        classes=("a",),
        palette=((0, 0, 0),),
        count_kk=np.ones((1, 1), np.int64),
        figures=figures,
        iou=(0.25,),
        views=(),
        protocol="whole",
        images=1,
    )
    own = Gathered(name="own", directory=Path("a"), recipe=tiny(), log=(), answers=answers)
    none = replace(own, name="none", answers=None)
    for text in (sections.tiles(own), sections.scores_table([own, none])):
        assert "challenge score" in text
        assert "37.5" in text
        assert "59 classes" not in text


def test_no_image_is_no_problem(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = report(capsys, run, "--images=0", "--out", tmp_path)
    assert (code, out) == (0, f"{tmp_path / 'report.html'}\n")
    assert not Page((tmp_path / "report.html").read_text()).all("img")


def test_runs_are_named_by_what_tells_them_apart(tmp_path: Path) -> None:
    assert run_names([tmp_path / "a", tmp_path / "b"]) == ["a", "b"]
    assert run_names([tmp_path / "x" / "a", tmp_path / "y" / "a"]) == ["x/a", "y/a"]


def test_a_setting_is_marked_if_it_differs_from_its_default() -> None:
    changed = {s.name for s in settings(tiny()) if s.changed}
    assert {"data.name", "data.crop", "model.rank", "train.steps"} <= changed
    assert not {"optim.momentum", "data.root", "eval.scales"} & changed


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
    from PIL import Image

    with Image.open(shot) as image:
        assert len(image.convert("RGB").getcolors(2**24) or []) > 50


def test_the_report_tells_on_what_a_run_was_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", tiny(), best=False)
    report(capsys, run)
    assert "have not kept on what they were trained" in (run / "report.html").read_text()
    world = World(rank=0, size=1, device=torch.device("cpu"))
    note_start(run, 0, world)
    note_start(run, 20, replace(world, size=2))
    with (run / STARTS).open("a") as file:
        file.write('{"kind": "start", "step": 30, "torch": "<b>bold</b>"}\n{"kind": "sta')
    report(capsys, run)
    text = (run / "report.html").read_text()
    rows = re.findall(r"<tr>(.*?)</tr>", text.split("TrainedNetwork on")[1], re.S)
    assert len(rows) == 4
    assert torch.__version__ in rows[1]
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
