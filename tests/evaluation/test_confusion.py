"""Counting a confusion matrix over a dataset: stopping, skipping, progress."""

import numpy as np
import pytest
import torch

from reconet.data import DATASETS, open_dataset
from reconet.data.dataset import Dataset, DatasetInfo, FileDataset, Sample
from reconet.errors import DataError
from reconet.evaluation import StoppedError, count_model_confusion
from reconet.models.segmenter import build_model
from reconet.system.distributed import Processes
from reconet.system.progress import Silent
from reconet.types import IGNORE
from tests.factories import tiny_network, tiny_recipe

ALONE = Processes.single(torch.device("cpu"))


class Counting(Silent):
    """Counts how often progress advances."""

    count = 0

    def advance(self, count: int = 1) -> None:
        self.count += count


class FirstBroken:
    """A dataset whose first image cannot be read."""

    def __init__(self, whole: Dataset) -> None:
        self.whole = whole

    @property
    def info(self) -> DatasetInfo:
        return self.whole.info

    @property
    def split(self) -> str:
        return self.whole.split

    def __len__(self) -> int:
        return len(self.whole)

    def name(self, index: int) -> str:
        return self.whole.name(index)

    def __getitem__(self, index: int) -> Sample:
        if index == 0:
            raise DataError("the first image is broken.")
        return self.whole[index]


def val_set() -> Dataset:
    return open_dataset("scenes", "val", None, tiny_recipe().data.options)


def test_a_model_in_training_is_counted_as_it_is_and_stays_in_training() -> None:
    recipe = tiny_recipe()
    dataset = open_dataset("scenes", "val", None, recipe.data.options)
    classes = len(dataset.info.classes)
    model = build_model(recipe, classes).train()
    count_kk, _ = count_model_confusion(model, dataset, ALONE)
    assert model.training
    expected_kk = torch.zeros(classes, classes, dtype=torch.int64)
    model.eval()
    for index in range(len(dataset)):
        _, image_hwc, label_hw = dataset[index]
        image_bchw = torch.from_numpy(image_hwc).permute(2, 0, 1)[None]
        with torch.no_grad():
            predicted_hw = model(image_bchw).main_bkhw.argmax(1)[0].numpy()
        for true, predicted in zip(label_hw.flat, predicted_hw.flat, strict=True):
            if true != IGNORE:
                expected_kk[true, predicted] += 1
    assert (count_kk - expected_kk).abs().sum() <= 4  # ties in the last bit


def test_an_image_that_cannot_be_read_raises_or_is_skipped_and_counted() -> None:
    dataset, model, progress = FirstBroken(val_set()), tiny_network().model, Counting()
    with pytest.raises(DataError, match="the first image is broken"):
        count_model_confusion(model, dataset, ALONE)
    result = count_model_confusion(model, dataset, ALONE, on_error="skip", progress=progress)
    assert result.skipped == 1
    assert progress.count == len(dataset) - 1
    everything = count_model_confusion(model, val_set(), ALONE)
    assert everything.skipped == 0
    assert result.count_kk.sum() < everything.count_kk.sum()


def test_stopping_is_an_error_that_says_so() -> None:
    progress = Counting()
    with pytest.raises(StoppedError):
        count_model_confusion(
            tiny_network().model, val_set(), ALONE, stop=lambda: True, progress=progress
        )
    assert progress.count == 1


def test_no_images_is_an_error_and_not_a_score() -> None:
    empty = FileDataset(
        info=DATASETS["camvid"].info,
        split="val",
        pairs=[],
        read_label=lambda path: np.zeros((1, 1), np.uint8),
    )
    with pytest.raises(DataError, match="camvid has no images in split 'val'"):
        count_model_confusion(build_model(tiny_recipe(), 11), empty, ALONE)
