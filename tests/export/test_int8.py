"""int8: the search for what to keep in fp32, with networks that are only names; its images."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from reconet.data import open_dataset
from reconet.data.images.read import write_index
from reconet.errors import DataError
from reconet.export.graph import trace
from reconet.export.images import from_dataset, from_folder, readable, windows_of
from reconet.export.int8 import KEPT, calibration, quantise, search
from reconet.export.write import as_onnx
from reconet.inference.protocol import Protocol
from reconet.inference.windows import labels
from reconet.models.trained import load_trained
from tests.export.trained import tiny_run

LOSSES = {(): 0.45, ("a",): 0.49, ("a", "b"): 0.499}


def test_the_first_try_that_loses_little_enough_is_taken() -> None:
    model, tries = search(lambda kept: kept, LOSSES.get, 0.5, 1.5, list(LOSSES))
    assert model == ("a",)
    assert [round(one.loss, 6) for one in tries] == [5.0, 1.0]


def test_where_no_try_is_good_enough_the_last_is_told() -> None:
    _, tries = search(lambda kept: kept, LOSSES.get, 0.5, 0.01, list(LOSSES))
    assert len(tries) == 3
    assert tries[-1].loss > 0.01


def test_without_a_score_everything_is_quantised() -> None:
    _, tries = search(str, lambda m: None, None, 0.0)
    assert [one.kept for one in tries] == [KEPT[0]]


def test_calibration_shows_what_the_protocol_shows() -> None:
    dataset = open_dataset("scenes", "val", None, {"size": [40, 100], "val": 3})
    protocol = Protocol(base_size=100, crop=(48, 48))
    seen: list[torch.Tensor] = []

    def look(image_bchw: torch.Tensor) -> torch.Tensor:
        seen.append(image_bchw)
        return torch.zeros(len(image_bchw), 2, 1, 1)

    image_hwc = dataset[0].image_hwc
    labels(look, torch.from_numpy(image_hwc), protocol, 2)
    expected = torch.cat(seen).numpy()
    assert expected.shape == (3, 3, 48, 48)
    np.testing.assert_array_equal(windows_of(image_hwc, protocol), expected)
    shown = list(calibration(from_dataset(dataset, 3), protocol))
    assert [one.shape for one in shown] == [(1, 3, 48, 48)] * 3
    np.testing.assert_array_equal(shown[0], expected[:1])
    np.testing.assert_array_equal(shown[1], windows_of(dataset[1].image_hwc, protocol)[1:2])


def test_a_photo_that_cannot_be_read_is_left_out_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("no image")
    notes: list[str] = []
    with pytest.raises(DataError, match="none of the 1 images of"):
        readable(from_folder(tmp_path, 9), notes.append)
    write_index(tmp_path / "b.png", np.zeros((20, 30), np.uint8), ((1, 2, 3),))
    found = readable(from_folder(tmp_path, 9), notes.append)
    assert found.source == f"1 images of {tmp_path}"
    assert [image_hwc.shape for image_hwc in found] == [(20, 30, 3)]
    assert len(notes) == 2
    assert all("a.png" in note for note in notes)


@pytest.mark.slow
def test_what_is_kept_in_fp32_is_not_quantised(tmp_path: Path) -> None:
    """The names of modules in KEPT are found in the graph: each try quantises less."""
    trained = load_trained(tiny_run(tmp_path))
    proto = as_onnx(trace(trained.model, output_stride=trained.info.recipe.model.output_stride))
    windows = [np.random.default_rng(0).integers(0, 256, (1, 3, 64, 64), np.uint8)]
    counts = []
    for kept in KEPT:
        operations = quantise(proto, windows, kept).get_ops()
        counts.append(sum(op.get_type_name() == "FakeQuantize" for op in operations))
    assert len(counts) == len(KEPT)
    assert all(more > fewer > 0 for more, fewer in pairwise(counts)), counts
