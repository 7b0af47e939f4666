"""`reconet data …` as a user meets it, with what goes wrong most often."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from reconet.data import DATASETS
from tests.cli.run import run
from tests.data.check.folders import Folder, several
from tests.data.trees import TREES, make_tree
from tests.launch import TINY_NETWORK


def test_list_names_every_dataset_with_its_classes_and_source(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run(capsys, "data", "list", "--json")
    assert code == 0
    listed = json.loads(out)
    assert set(listed) == set(DATASETS)
    assert len(listed["ade20k"]["classes"]) == 150
    assert listed["voc12"]["splits"]["trainaug"] == 10582
    assert all(entry["licence"] and entry["source"] for entry in listed.values())


def test_list_does_not_break_addresses(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconet.cli.output.console", lambda: Console(width=60, markup=False))
    out = run(capsys, "data", "list")[1]
    assert all(f"{name}: {entry.info.source} (" in out for name, entry in DATASETS.items())
    assert max(map(len, out.split("Where to get them")[0].splitlines())) <= 60


@pytest.mark.parametrize("name", ["voc12", "pcontext", "coco"])
def test_prepare_converts_once_and_then_has_nothing_to_do(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    TREES[name](tmp_path)
    arguments = ["data", "prepare", name, "--root", str(tmp_path), "--workers", "0", "--json"]
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    first = json.loads(out)
    assert first["written"] > 0
    assert all(split["images"] > 0 for split in first["splits"].values())
    again = json.loads(run(capsys, *arguments)[1])
    assert again["written"] < first["written"]
    assert again["splits"] == first["splits"]


def test_check_of_a_good_part_of_a_dataset_finds_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_tree("voc12", tmp_path)
    sheet = tmp_path / "sheet.png"
    arguments = ["data", "check", "voc12", "--root", str(tmp_path), "--workers", "0"]
    code, out, _ = run(capsys, *arguments, "--subset", "--sheet", str(sheet))
    assert code == 0
    assert "nothing is wrong" in out
    assert np.asarray(Image.open(sheet)).std() > 10
    assert run(capsys, *arguments, "--subset", "--sheet", str(sheet))[0] == 0  # its own, again
    photo = next(tmp_path.rglob("*.jpg"))
    before = photo.read_bytes()
    code, _, err = run(capsys, *arguments, "--subset", "--sheet", str(photo))
    assert code == 2
    assert "another kind of file; name another --sheet" in err
    assert photo.read_bytes() == before
    code, out, _ = run(capsys, *arguments)
    assert code == 1
    assert "officially 1464" in out


def test_check_names_file_and_value_of_every_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_tree("voc12", tmp_path)
    labels = sorted((tmp_path / "VOCdevkit/VOC2012/SegmentationClass").glob("*.png"))
    wrong = np.zeros((40, 56), np.uint8)
    wrong[:2, :5] = 37
    Image.fromarray(wrong).save(labels[0])
    image = tmp_path / "VOCdevkit/VOC2012/JPEGImages" / f"{labels[1].stem}.jpg"
    image.write_bytes(image.read_bytes()[:300])
    arguments = ["data", "check", "voc12", "--root", str(tmp_path), "--subset", "--json"]
    code, out, _ = run(capsys, *arguments, "--workers", "0", "--split", "train")
    assert code == 1
    findings = {finding["kind"]: finding for finding in json.loads(out)["findings"]}
    assert findings["label-outside"]["examples"] == [labels[0].stem]
    assert "37 (" in findings["label-outside"]["text"]
    assert findings["unreadable-image"]["examples"] == [labels[1].stem]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "voc13"], "Did you mean 'voc12'?"),
        (["check", "voc12"], "RECONET_DATA"),
        (["check", "voc12", "--root", "/nowhere"], "/nowhere"),
        (["check", "voc12", "--root", "{tree}", "--split", "trian"], "Did you mean 'train'?"),
        (["check", "cityscapes", "--root", "{tree}"], "leftImg8bit"),
        (["check", "folder", "--root", "{tree}"], "classes"),
        (["prepare", "scenes"], "nothing to prepare"),
        (["prepare", "voc12", "--root", "{tree}", "--source", "{tree}/VOCdevkit"], "cls of SBD"),
    ],
)
def test_what_is_wrong_with_the_call_is_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RECONET_DATA", raising=False)
    make_tree("voc12", tmp_path)
    code, _, err = run(capsys, "data", *(a.replace("{tree}", str(tmp_path)) for a in arguments))
    assert code == 2
    assert err.count("\n") == 1, err
    assert message in err


def test_one_file_is_checked_trained_and_evaluated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Folder(tmp_path / "pictures").add_all(several((0, 1, 2)))
    mine = tmp_path / "mine.yaml"
    mine.write_text("root: pictures\nclasses: [ground, tree, roof]\nval_fraction: 0.5\n")
    (tmp_path / "pictures/masks/a.png").unlink()
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "data", "check", "mine.yaml", "--workers=0", "--subset")
    assert (code, "1 image without a mask" in out) == (0, True)
    code, out, _ = run(capsys, "show", "folder/reconet", "--data", "mine.yaml", "--json")
    assert json.loads(out)["data"]["root"] == str(tmp_path / "pictures")
    code, _, err = run(
        capsys, "train", "folder/reconet", "--data=mine.yaml", "--out=runs/mine", *TINY_NETWORK
    )
    assert code == 0, err
    assert "train leaves out 1 of 4 images, which have no mask, such as a." in err
    mine.rename(tmp_path / "other.yaml")
    (tmp_path / "other.yaml").write_text("root: pictures\nclasses: [ground, tree, roof]\n")
    code, out, err = run(
        capsys, "evaluate", "runs/mine", "--data=other.yaml", "--json", "--device=cpu"
    )
    assert code == 0, err
    assert json.loads(out)["images"] == 1
    code, _, err = run(capsys, "evaluate", "runs/mine", "--data=mine.yaml", "--device=cpu")
    assert (code, err.count("\n"), "mine.yaml" in err) == (2, 1, True)


def test_augmented_shows_the_crops_of_a_recipe_and_says_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--set", "data.options.train=5", "--set", "data.options.val=2"]
    small += ["--set", "data.options.size=[48,64]", "--workers", "0"]
    path = tmp_path / "crops.png"
    sheets = []
    for more in ([], ["--recipe", "scenes/tiny"], ["--set", "data.augment.erase=0.5"]):
        code, out, err = run(
            capsys, "data", "check", "scenes", *small, "--augmented", str(path), *more
        )
        assert code == 0, err
        assert f"as in {more[1] if '--recipe' in more else 'scenes/fcn'}: {path}" in out
        sheets.append(np.array(Image.open(path)))
    assert sheets[0].shape[1] > 5 * 2 * 64  # an image and its crops, twice
    assert all(not np.array_equal(sheets[0], other) for other in sheets[1:])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--recipe", "scenes/tiny"], "name that too"),
        (["--augmented", "crops.png", "--recipe", "scenes/tyni"], "Did you mean 'scenes/tiny'"),
        (["--augmented", "crops.png", "--recipe", "voc12/frozen_r50"], "for the dataset voc12"),
        (["--augmented", "crops.png", "--set", "data.augment.rotate=3"], "data.augment.rotation"),
        (["--augmented", "crops.png", "--set", "data.augment.rotation=270"], "180"),
        (["--augmented", "crops.png", "--set", "data.augment=3"], "data.augment.blur"),
    ],
)
def test_a_wrong_augmentation_is_one_line(
    more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "data", "check", "scenes", *more)
    assert code == 2
    assert message in err
    assert err.strip().count("\n") == 0
