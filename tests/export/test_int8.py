"""int8: the search for the modules to keep in fp32, and the score of the result."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from reconet.cli import main
from reconet.data.images.write import write_mask
from reconet.export.formats import to_onnx
from reconet.export.graph import trace
from reconet.export.int8 import KEPT_IN_FP32, kept_in_fp32, quantise, search
from reconet.inference.backends import open_exported
from reconet.models.trained import load_trained
from tests.export.helpers import random_image

LOSSES = {(): 0.45, ("a",): 0.49, ("a", "b"): 0.499}  # mIoU by what stays in fp32


def test_the_first_attempt_that_loses_little_enough_is_taken() -> None:
    model, attempts = search(lambda kept: kept, LOSSES.get, 0.5, 1.5, list(LOSSES))
    assert model == ("a",)
    assert [round(attempt.loss, 6) for attempt in attempts] == [5.0, 1.0]


def test_if_no_attempt_is_good_enough_the_last_is_returned() -> None:
    _, attempts = search(lambda kept: kept, LOSSES.get, 0.5, 0.01, list(LOSSES))
    assert len(attempts) == 3
    assert attempts[-1].loss > 0.01


def test_without_a_score_everything_is_quantised() -> None:
    _, attempts = search(str, lambda m: None, None, 0.0)
    assert [attempt.kept for attempt in attempts] == [KEPT_IN_FP32[0]]


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
    assert result["images"] == "3 images of scenes val"
    assert result["bytes"] == out.stat().st_size + out.with_suffix(".bin").stat().st_size
    assert result["scored_on"] == "3 images of scenes val"
    assert result["calibrated_on"] == f"2 images of {folder}"
    (first,) = result["tries"]
    assert first["kept"] == []
    info = open_exported(out).info
    assert info.precision == "int8"
    assert info.int8["after"] == pytest.approx(first["after"])
    assert "i8" in out.read_text()


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
