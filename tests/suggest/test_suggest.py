"""`reconet suggest`: the order, the page, broken images, and what users get wrong."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from PIL import Image as Pillow

from reconet.data import open_dataset
from reconet.inference import Predictor
from reconet.models import save_trained
from reconet.suggest import suggest
from reconet.types import IGNORE
from tests.cli.run import run
from tests.factories import ProgressRecorder, smooth_image, tiny_network, tiny_recipe, write_run
from tests.pages import Page

SCENES = {"size": [40, 56], "train": 6, "val": 2}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write six images with masks, one of them broken, for training and validation."""
    for split, count in (("train", 6), ("val", 2)):
        dataset = open_dataset("scenes", split, None, SCENES)
        for index in range(count):
            _, image_hwc, label_hw = dataset[index]
            image, mask = (tmp_path / "mine" / kind / split for kind in ("images", "masks"))
            image.mkdir(parents=True, exist_ok=True)
            Pillow.fromarray(image_hwc).save(image / f"{index}.png")
            mask.mkdir(parents=True, exist_ok=True)
            Pillow.fromarray(label_hw).save(mask / f"{index}.png")
    return tmp_path / "mine"


@pytest.fixture
def network(tmp_path: Path, folder: Path) -> Path:
    """Write a run whose network was made for these images."""
    classes = open_dataset("scenes", "val", None, SCENES).info.classes
    recipe = tiny_recipe(
        "data.name=folder",
        f"data.root={folder}",
        f"data.options={json.dumps({'classes': classes})}",
        "data.workers=0",
    )
    return write_run(tmp_path / "run", tiny_network(recipe, decided=True))


def save_image(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Pillow.fromarray(smooth_image(seed, 48, 64)).save(path)
    return path


def test_masks_are_ranked_as_a_slow_version_ranks_them(network: Path, folder: Path) -> None:
    result = suggest(network, device="cpu")
    assert result is not None
    predictor = Predictor.from_run(network, device="cpu", precision="fp32")
    dataset = open_dataset("folder", "train", folder, predictor.network.info.recipe.data.options)
    wanted = {}
    for index in range(len(dataset)):
        name, image_hwc, label_hw = dataset[index]
        probability_khw = predictor(image_hwc, with_probabilities=True).probability_khw
        assert probability_khw is not None
        value_hw = np.zeros(label_hw.shape, np.float32)
        for y, x in np.argwhere(label_hw != IGNORE).tolist():
            p = probability_khw[:, y, x]
            value_hw[y, x] = p.max() - p[label_hw[y, x]]
        around = np.pad(value_hw, 1, mode="edge")  # an image so small has borders of one pixel
        least_hw = sliding_window_view(around, (3, 3)).min((2, 3))
        wanted[name] = least_hw.sum() / (label_hw != IGNORE).sum()
    got = {one.name: one.figures["disagreement"] for one in result.images}
    assert got == pytest.approx(wanted, abs=1e-5)
    assert [one.name for one in result.images] == sorted(got, key=lambda name: -got[name])
    assert result.images[0].files["mask"].startswith(str(folder))


def test_images_without_labels_have_two_figures_and_the_page_shows_the_first(
    capsys: pytest.CaptureFixture[str], network: Path, tmp_path: Path
) -> None:
    for seed in range(4):
        save_image(tmp_path / "new" / "sub" / f"{seed}.png", seed)
    (tmp_path / "new" / "broken.jpg").write_text("hello")
    page = tmp_path / "next.html"
    code, out, err = run(
        capsys, "suggest", str(network), str(tmp_path / "new"), "--device=cpu", "--json",
        f"--out={page}", "--most=2",
    )  # fmt: skip
    assert code == 0
    assert "broken.jpg" in err
    values = json.loads(out)
    assert values["kind"] == "label-next"
    assert [one["row"] for one in values["images"]] == [1, 2, 3, 4]
    assert all({"unsure", "distance", "files"} <= one.keys() for one in values["images"])
    assert [one["name"] for one in values["skipped"]] == ["broken.jpg"]
    text = page.read_text()
    assert text.count("<h3") == 2
    assert "unsure here" in text


def test_images_that_are_in_the_training_set_are_left_out(
    network: Path, folder: Path, tmp_path: Path
) -> None:
    other = save_image(tmp_path / "other.png", 1)
    result = suggest(network, [str(folder / "images/train"), str(other)], device="cpu")
    assert result is not None
    assert [Path(one.name).name for one in result.images] == ["other.png"]
    assert result.notes == ("left out: 6 images that train has already.",)


def test_without_the_training_images_only_one_figure_counts_and_a_note_says_so(
    network: Path, folder: Path, tmp_path: Path
) -> None:
    folder.rename(tmp_path / "gone")
    names = [str(save_image(tmp_path / f"{seed}.png", seed)) for seed in range(3)]
    result = suggest(network, names, device="cpu")
    assert result is not None
    assert all(one.figures.keys() == {"unsure"} for one in result.images)
    unsure = [one.figures["unsure"] for one in result.images]
    assert unsure == sorted(unsure, reverse=True)
    (note,) = result.notes
    assert note.startswith("not compared with the training images: ")


def test_a_broken_image_of_a_dataset_is_named_and_left_out(network: Path, folder: Path) -> None:
    (folder / "images/train/3.png").write_text("hello")
    progress = ProgressRecorder()
    result = suggest(network, device="cpu", progress=progress)
    assert result is not None
    assert len(result.images) == 5
    assert "3.png" in result.skipped[0]["reason"]
    assert any(line.startswith("left out: ") and "3.png" in line for line in progress.lines)


def test_a_page_is_replaced_and_a_file_of_a_stranger_is_not(
    capsys: pytest.CaptureFixture[str], network: Path, tmp_path: Path
) -> None:
    page = network / "label-again.html"
    for _ in range(2):
        code, out, _ = run(capsys, "suggest", str(network), "--device=cpu", "--most=1")
        assert code == 0
        assert str(page) in out
        assert "and 5 images more" in out
    own = tmp_path / "own.html"
    own.write_text("my page")
    code, _, err = run(capsys, "suggest", str(network), f"--out={own}", "--device=cpu")
    assert (code, err.count("\n")) == (2, 1)
    assert own.read_text() == "my page"


def test_what_users_get_wrong_is_one_line(
    capsys: pytest.CaptureFixture[str], network: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    other = tmp_path / "other.safetensors"
    save_trained(other, tiny_network(tiny_recipe("data.options.train=8"), decided=True))
    for arguments, words in (
        ([network, "--split", "trian"], "Did you mean 'train'"),
        ([network, tmp_path / "empty"], "no images"),
        ([network, tmp_path / "missing.png"], "no such file"),
        ([network, "--set", "model.rank=3"], "settings of data and eval"),
        ([network, "--most", "0"], "--most"),
        ([network, "--root", tmp_path / "nowhere"], "nowhere"),
        ([network, save_image(tmp_path / "a.png", 1), "--root", tmp_path / "no"], "no"),
        ([other, "--data", tmp_path / "missing.yaml"], "missing.yaml"),
        (["runz"], "no network 'runz'"),
    ):
        code, _, err = run(capsys, "suggest", *map(str, arguments), "--device=cpu")
        assert (code, err.count("\n")) == (2, 1), err
        assert words in err


def test_a_mask_without_labels_is_left_out(network: Path, folder: Path) -> None:
    Pillow.new("L", (56, 40), IGNORE).save(folder / "masks/train/2.png")
    result = suggest(network, device="cpu")
    assert result is not None
    assert len(result.images) == 5
    (skipped,) = result.skipped
    assert skipped["reason"] == "no pixel has a label"


def test_names_cannot_bring_markup_into_the_page(network: Path, tmp_path: Path) -> None:
    image = save_image(tmp_path / "<b>&.png", 1)
    result = suggest(network, [str(image)], device="cpu")
    assert result is not None
    page = Page(result.page.read_text())
    assert not page.all("script")
    assert not page.all("b")
    assert "<b>&.png" in page.text
    assert len(page.all("img")) == 2, "the image and the labels of the network"
