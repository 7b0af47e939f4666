"""The promise of `reconet suggest`, on a smaller scale than in docs/own-data.md."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.suggest import SIZE, WAYS, found_in, ranked, train, write_images
from reconet import open_dataset


@pytest.mark.slow
def test_most_wrong_masks_are_in_the_first_tenth_of_the_rows(tmp_path: Path) -> None:
    wrong = write_images(tmp_path / "data", 0, {"train": 200, "val": 8})
    assert len(wrong) == 10
    train(tmp_path / "data", tmp_path / "run", 0, steps=300)
    order = ranked(tmp_path / "run")
    assert len(order) == 200
    assert found_in(order, set(wrong), 0.1) >= 8


@pytest.mark.parametrize("way", WAYS)
def test_a_corrupted_mask_differs_from_the_right_one(way: str) -> None:
    rng = np.random.default_rng(0)
    scenes = open_dataset("scenes", "train", None, {"size": list(SIZE), "train": 2})
    label_hw, other_hw = scenes[0].label_hw, scenes[1].label_hw
    wrong_hw = WAYS[way](label_hw, other_hw, rng)
    assert wrong_hw.shape == label_hw.shape
    assert wrong_hw.dtype == np.uint8
    assert (wrong_hw != label_hw).mean() >= 0.02
