"""The search for what to keep in fp32, with networks that are only names."""

import numpy as np
import torch

from reconet.data import open_dataset
from reconet.export.int8 import KEPT, calibration, search
from reconet.export.pictures import from_dataset, windows_of
from reconet.inference import labels
from reconet.protocol import Protocol

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
