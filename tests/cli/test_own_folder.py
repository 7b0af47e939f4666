"""`reconet train DIR` and `reconet data inspect DIR`, as a new user types them."""

import json
import re
from pathlib import Path

import pytest
from PIL import Image

from reconet.recipes import read_recipe
from tests.cli.run import run
from tests.engine.test_own_data import exported

TINY = (
    "--set=model.weights=null",
    "--set=model.width=0.125",
    "--set=model.rank=4",
    "--set=train.steps=4",
    "--set=train.batch=2",
    "--set=train.eval_every=4",
    "--set=data.workers=0",
    "--device=cpu",
)


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def test_a_dry_run_prints_everything_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported(tmp_path / "mine", "coco")
    code, out, err = run(capsys, "train", "mine/", "--dry-run", "--device=cpu")
    assert code == 0, err
    assert "mine: COCO instances (json)" in out
    assert "images: train 4, val 2" in out
    assert "classes: 3 (" in out
    assert "train.batch" in out
    assert "would train in runs/mine-" in out
    out = run(capsys, "train", "mine/", "--dry-run", "--device=cpu", "--epochs=3")[1]
    assert re.search(r"train.epochs +3 +you set it", out)
    assert "train.steps" not in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]


def test_the_table_says_that_photographs_are_turned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported(tmp_path / "mine", "yolo")
    exif = Image.Exif()
    exif[274] = 6  # the orientation
    photo = tmp_path / "mine/images/train/0.png"
    Image.open(photo).transpose(Image.Transpose.ROTATE_90).save(photo, exif=exif)
    for words in (("train", "mine/", "--dry-run"), ("data", "inspect", "mine", "--workers=0")):
        code, out, err = run(capsys, *words, "--device=cpu")
        assert code == 0, err
        assert "note: 1 photograph has an EXIF orientation: turned upright" in out


def test_training_on_a_folder_ends_with_score_report_and_next_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported(tmp_path / "mine", "colour-masks")
    code, out, err = run(capsys, "train", "mine/", *TINY, "--out=runs/a b")
    assert code == 0, err
    assert "% mIoU on the validation images, at step 4" in out
    assert (tmp_path / "runs/a b/report.html").is_file()
    assert "  reconet predict 'runs/a b' NEW-IMAGES/" in out
    recipe = read_recipe(tmp_path / "runs/a b/recipe.json")
    assert recipe.data.options["classes"] == ["road", "roof", "tree"]
    code, _, err = run(capsys, "train", "mine/", "--out=runs/a b", "--resume", "--device=cpu")
    assert code == 0, err


def test_inspect_prints_the_same_as_json_and_writes_a_recipe_that_trains(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported(tmp_path / "mine", "yolo")
    words = ("data", "inspect", "mine", "--json", "--device=cpu", "--workers=0")
    code, out, err = run(capsys, *words)
    assert code == 0, err
    values = json.loads(out)
    assert values["format"] == "yolo"
    assert values["check"]["classes"] == ["road", "roof", "tree"]
    assert {"setting", "value", "reason"} == set(values["settings"][0])
    code, _, err = run(capsys, *words[:3], "--recipe=mine.json", *TINY[:-2], "--device=cpu")
    assert code == 0, err
    assert read_recipe(tmp_path / "mine.json").data.options["classes"] == ["road", "roof", "tree"]
    code, _, err = run(capsys, "train", "mine.json", "--set=data.workers=0", "--out=run")
    assert code == 0, err


def test_problems_stop_a_training_before_it_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported(tmp_path / "mine", "index-masks")
    (tmp_path / "mine/masks/val/2.png").write_bytes(b"no image")
    code, _, err = run(capsys, "train", "mine", *TINY)
    assert code == 2
    assert "reconet: 1 problem in mine: val: 1 mask: cannot read it" in err
    assert err.rstrip().endswith("`reconet data inspect mine` shows more.")
    assert not (tmp_path / "runs").exists()
    assert run(capsys, "data", "inspect", "mine", "--device=cpu")[0] == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("train", "empty"), "empty has no labels of a known format: it is empty"),
        (("train", "mine", "--format", "yolo"), "mine holds no YOLO segmentation"),
        (("train", "mine", "--format", "jolo"), "unknown format 'jolo'. Did you mean 'yolo'?"),
        (("train", "mine", "--set", "train.stepz=3"), "unknown setting 'train.stepz'"),
        (("train", "mine", "--data", "mine.yaml"), "--data is for a recipe"),
        (("train", "scenes/tiny", "--dry-run"), "`reconet show scenes/tiny` prints a recipe"),
        (("data", "inspect", "nothing"), "nothing does not exist"),
        (("data", "inspect", "mine/labelmap.txt"), "labelmap.txt is not a folder"),
        (("train", "mine", "--resume"), "there is no run to resume: mine has no recipe.json"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], reason: str
) -> None:
    exported(tmp_path / "mine", "colour-masks")
    (tmp_path / "empty").mkdir()
    code, _, err = run(capsys, *words, "--device=cpu")
    assert code == 2
    assert reason in err
    assert len(err.strip().splitlines()) == 1


def test_prepare_draws_the_masks_of_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported(tmp_path / "mine", "labelme")
    code, out, err = run(capsys, "data", "prepare", "mine", "--workers=0", "--json")
    assert code == 0, err
    values = json.loads(out)
    assert values["masks"] == len(list(Path(values["folder"]).glob("*.png"))) == 6
    code, out, _ = run(capsys, "data", "check", f"{values['folder']}/mine.yaml", "--workers=0")
    assert "4" in out
    assert "masks" in run(capsys, "cache", "list")[1]
