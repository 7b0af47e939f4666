"""The benchmark measures what it says. How fast this machine is does not matter here."""

from pathlib import Path

import numpy as np
import pytest

from reconet.bench.data import bench_data, write_images
from reconet.data.dataset import FileDataset
from reconet.types import IGNORE


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> FileDataset:
    return write_images(tmp_path_factory.mktemp("images"), 6)


def test_images_are_like_those_of_voc(dataset: FileDataset) -> None:
    for pair, sample in zip(dataset.pairs, map(dataset.__getitem__, range(6)), strict=True):
        assert sample.image_hwc.shape == (375, 500, 3)
        assert sample.label_hw.shape == (375, 500)
        assert set(np.unique(sample.label_hw)) <= {*range(21), IGNORE}
        assert len(np.unique(sample.label_hw)) > 2
        assert pair.image.read_bytes().startswith(b"\xff\xd8")
        assert sample.image_hwc.std() > 20
    sizes = [pair.image.stat().st_size for pair in dataset.pairs]
    assert 60_000 < np.mean(sizes) < 120_000


def test_images_are_the_same_in_every_run(dataset: FileDataset, tmp_path: Path) -> None:
    again = write_images(tmp_path, 1)
    assert again.pairs[0].image.read_bytes() == dataset.pairs[0].image.read_bytes()


def test_ratios_are_relative_to_the_same_number_of_workers() -> None:
    results = bench_data(images=4, batch=2, steps=2, rounds=1, workers=(1, 2))
    assert [(r.name, r.workers) for r in results] == [
        (name, workers) for workers in (1, 2) for name in ("reconet", "decode")
    ]
    for ours, decode in (results[:2], results[2:]):
        assert decode.of_decode == 1
        rate = pytest.approx(ours.samples_per_second)
        assert ours.of_decode * decode.samples_per_second == rate
