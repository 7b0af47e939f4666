"""Validations during a training."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from reconet.data import open_split
from reconet.engine import open_inputs, read_log
from tests.data.trees import make_tree
from tests.engine.steps import Processes
from tests.factories import ProgressRecorder, tiny_network, tiny_recipe
from tests.launch import TINY_NETWORK, run_main


def train_ade20k(folder: Path) -> list[str]:
    """Write a tiny ADE20K, and return the arguments that train on it."""
    make_tree("ade20k", folder / "data")
    places = [f"--set=data.root={folder / 'data'}", f"--out={folder / 'run'}"]
    return ["train", "ade20k/reconet_r50", *TINY_NETWORK, *places]


@pytest.mark.parametrize("which", ["train", "val"])
def test_a_split_without_labels_is_refused_before_the_first_step(
    which: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run_main(capsys, *train_ade20k(tmp_path), f"--set=data.{which}_split=test")
    assert (code, err.count("\n")) == (2, 1)
    assert "ade20k test has no labels" in err


def train_camvid(folder: Path) -> list[str]:
    """Return the arguments that train on a tiny CamVid."""
    places = [f"--set=data.root={folder / 'data'}", f"--out={folder / 'run'}"]
    return ["train", "folder/reconet", *TINY_NETWORK, "--set=data.name=camvid", *places]


@pytest.mark.parametrize("which", ["train", "val"])
def test_a_split_whose_masks_are_void_is_refused_before_the_first_step(
    which: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_tree("camvid", tmp_path / "data")
    for path in (tmp_path / "data" / f"{which}annot").iterdir():
        with Image.open(path) as label:
            Image.fromarray(np.full(label.size[::-1], 11, np.uint8)).save(path)
    code, _, err = run_main(capsys, *train_camvid(tmp_path))
    assert (code, err.count("\n")) == (2, 1)
    assert f"camvid {which} has no labelled pixel to learn or score by" in err


def test_a_validation_without_a_labelled_pixel_keeps_the_work_and_is_made_up_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_tree("camvid", tmp_path / "data")
    good = {path: path.read_bytes() for path in (tmp_path / "data" / "valannot").iterdir()}
    for path in good:
        path.write_bytes(b"no image")
    arguments = [*train_camvid(tmp_path), "--set=data.on_error=skip"]
    code, _, err = run_main(capsys, *arguments)
    assert code == 2
    assert err.splitlines()[-1].endswith("camvid val has no labelled pixel to score against.")
    for path, content in good.items():
        path.write_bytes(content)
    assert run_main(capsys, *arguments, "--resume")[0] == 0
    assert [line["kind"] for line in read_log(tmp_path / "run")] == ["summary", "train", "val"]
    assert (tmp_path / "run" / "best.safetensors").is_file()


def test_a_class_that_nobody_saw_is_null_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # JSON has no NaN: other programs refuse it.
    assert run_main(capsys, *train_ade20k(tmp_path))[0] == 0
    text = (tmp_path / "run" / "log.jsonl").read_text()
    assert "NaN" not in text
    iou = read_log(tmp_path / "run")[-1]["iou"]
    assert len(iou) == 150
    assert None in iou
    assert any(isinstance(value, float) for value in iou)


class SecondOfTwo(Processes):
    """The second of two processes, without the first."""

    def sum(self, value: torch.Tensor) -> torch.Tensor:
        return value

    def gather(self, value: Any) -> list[Any]:
        return [value]


def test_progress_counts_the_images_of_this_process() -> None:
    recipe, progress = tiny_recipe("data.options.val=5"), ProgressRecorder()
    processes = SecondOfTwo(rank=1, size=2, device=torch.device("cpu"))
    train_set, val_set = (open_split(recipe.data, split) for split in ("train", "val"))
    model = tiny_network(recipe).model
    open_inputs(recipe, model, train_set, val_set, processes).validate(
        model, lambda: False, progress
    )
    assert progress.lines == ["validate 1 of 2", "validate 2 of 2"]
