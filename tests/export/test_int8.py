"""int8: the images, the modules that stay in fp32, and the score of the result."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from reconet.cli import main
from reconet.data import open_dataset
from reconet.data.images.draw import write_mask
from reconet.errors import AbsentError, ReconetError
from reconet.export.formats import to_onnx, trace
from reconet.export.int8 import KEPT_IN_FP32, kept_in_fp32, quantise
from reconet.export.sample_images import images_of_dataset, load_samples, windows_of
from reconet.inference import Protocol, predict_labels
from reconet.inference.backends import open_exported
from reconet.models.trained import load_trained
from reconet.recipes import find_recipe
from tests.data.trees import make_tree
from tests.export.helpers import random_image
from tests.factories import tiny_recipe


def test_a_dataset_that_is_here_but_wrong_is_not_taken_for_absent(tmp_path: Path) -> None:
    # Otherwise int8 would not be scored, and nobody would know why.
    recipe = tiny_recipe("data.options.trees=1")
    with pytest.raises(ReconetError, match="trees"):
        load_samples(recipe, "val", None, 4)
    make_tree("camvid", tmp_path / "camvid")
    wrong = ["data.name=camvid", f"data.root={tmp_path / 'camvid'}", "data.options.trees=1"]
    damaged = tiny_recipe(*wrong)
    with pytest.raises(ReconetError, match=r"data\.options"):
        load_samples(damaged, "val", None, 4)


@pytest.mark.parametrize("root", [None, "/no/such/place"])
def test_where_the_dataset_is_not_here_images_are_generated(
    root: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECONET_DATA", raising=False)
    recipe = find_recipe("voc12/reconet_r50")
    data = recipe.data.model_copy(update={"root": root and Path(root), "crop": (64, 64)})
    elsewhere = recipe.model_copy(update={"data": data})
    images = load_samples(elsewhere, "val", None, 2)
    assert images.description == "2 images of generated scenes (voc12 is not here)"
    with pytest.raises(AbsentError):
        load_samples(elsewhere, "val", Path("/no/such/place"), 2)


def test_calibration_shows_what_the_protocol_shows() -> None:
    dataset = open_dataset("scenes", "val", None, {"size": [40, 100], "val": 3})
    protocol = Protocol(base_size=100, crop=(48, 48))
    batches: list[torch.Tensor] = []

    def record(image_bchw: torch.Tensor) -> torch.Tensor:
        batches.append(image_bchw)
        return torch.zeros(len(image_bchw), 2, 1, 1)

    image_hwc = dataset[0].image_hwc
    predict_labels(record, torch.from_numpy(image_hwc), protocol, 2)
    expected = torch.cat(batches).numpy()
    assert expected.shape == (3, 3, 48, 48)
    windows = windows_of(images_of_dataset(dataset, 3), protocol)
    assert [one.shape for one in windows] == [(1, 3, 48, 48)] * 3
    np.testing.assert_array_equal(windows[0], expected[:1])
    second = windows_of([dataset[0].image_hwc, dataset[0].image_hwc], protocol)[1]
    np.testing.assert_array_equal(second, expected[1:2])


def test_int8_is_scored_and_says_how_it_was_made(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "photos"
    for number in range(2):
        label_hw = random_image(40, 70).numpy() // (number + 1)
        write_mask(folder / f"{number}.png", label_hw, tuple((i, i // 2, 9) for i in range(256)))
    (folder / "broken.png").write_text("no image")
    out = tmp_path / "net.xml"
    arguments = ["--format=openvino", "--int8", "--calibrate", str(folder), "--out", str(out)]
    code = main(["export", str(run), *arguments, "--score-on=3", "--max-loss=100", "--json"])
    assert code == 0
    printed = capsys.readouterr()
    assert "left out" in printed.err
    assert "broken.png" in printed.err
    result = json.loads(printed.out)
    assert result["images"] == "4 images of scenes val"
    assert result["bytes"] == out.stat().st_size + out.with_suffix(".bin").stat().st_size
    assert result["scored_on"] == "3 images of scenes val"
    assert result["calibrated_on"] == f"2 images of {folder}"
    (first,) = result["tries"]
    assert first["kept"] == []
    info = open_exported(out).info
    assert info.precision == "int8"
    assert info.int8["after"] == pytest.approx(first["after"])
    assert "i8" in out.read_text()


def test_what_loses_too_much_in_every_attempt_is_an_error(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "net.xml"
    arguments = ["--format=openvino", "--int8", "--images=1", "--score-on=1", "--max-loss=-200"]
    assert main(["export", str(run), *arguments, f"--out={out}"]) == 2
    assert "int8 loses more than -200 points of mIoU in every attempt (" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.slow
def test_what_is_kept_in_fp32_is_not_quantised(run: Path) -> None:
    # The names of modules are found in the graph: each attempt quantises less.
    trained = load_trained(run)
    proto = to_onnx(trace(trained.model))
    windows = [np.random.default_rng(0).integers(0, 256, (1, 3, 64, 64), np.uint8)]
    counts = []
    choices = kept_in_fp32(trained.model)
    for kept in choices:
        operations = quantise(proto, windows, kept).get_ops()
        counts.append(sum(op.get_type_name() == "FakeQuantize" for op in operations))
    assert len(counts) == len(KEPT_IN_FP32) + 1
    assert all(more > fewer > 0 for more, fewer in pairwise(counts)), counts
