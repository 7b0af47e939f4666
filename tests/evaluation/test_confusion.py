"""Counting a confusion matrix over a dataset: stopping, skipping, progress."""

import numpy as np
import pytest
import torch

from reconet.data import DATASETS, open_dataset
from reconet.data.dataset import Dataset, FileDataset, Sample
from reconet.errors import DataError
from reconet.evaluation import StoppedError, count_model_confusion
from reconet.evaluation.confusion import log_loss
from reconet.models.segmenter import build_model
from reconet.system.distributed import Processes
from reconet.types import IGNORE
from tests.factories import ProgressRecorder, tiny_network, tiny_recipe

ALONE = Processes.single(torch.device("cpu"))


def val_set() -> Dataset:
    return open_dataset("scenes", "val", None, tiny_recipe().data.options)


def test_a_model_in_training_is_counted_as_it_is_and_stays_in_training() -> None:
    recipe = tiny_recipe()
    dataset = open_dataset("scenes", "val", None, recipe.data.options)
    classes = len(dataset.info.classes)
    model = build_model(recipe, classes).train()
    count_kk = count_model_confusion(model, dataset, ALONE).count_kk
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


def test_an_image_that_cannot_be_read_raises_or_is_skipped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dataset, model, progress = val_set(), tiny_network().model, ProgressRecorder()
    everything = count_model_confusion(model, dataset, ALONE)
    assert everything.skipped == 0
    read = type(dataset).__getitem__

    def first_is_broken(self: Dataset, index: int) -> Sample:
        if index == 0:
            raise DataError("the first image is broken.")
        return read(self, index)

    monkeypatch.setattr(type(dataset), "__getitem__", first_is_broken)
    with pytest.raises(DataError, match="the first image is broken"):
        count_model_confusion(model, dataset, ALONE)
    result = count_model_confusion(model, dataset, ALONE, on_error="skip", progress=progress)
    assert result.skipped == 1
    assert progress.lines == ["advance 1"] * (len(dataset) - 1)
    assert result.count_kk.sum() < everything.count_kk.sum()


def test_stopping_is_an_error_that_says_so() -> None:
    progress = ProgressRecorder()
    with pytest.raises(StoppedError):
        count_model_confusion(
            tiny_network().model, val_set(), ALONE, stop=lambda: True, progress=progress
        )
    assert progress.lines == ["advance 1"]


def test_no_images_is_an_error_and_not_a_score() -> None:
    empty = FileDataset(
        info=DATASETS["camvid"].info,
        split="val",
        pairs=[],
        read_label=lambda path: np.zeros((1, 1), np.uint8),
    )
    with pytest.raises(DataError, match="camvid has no images in split 'val'"):
        count_model_confusion(build_model(tiny_recipe(), 11), empty, ALONE)


def test_the_loss_is_the_cross_entropy_of_labelled_pixels() -> None:
    probability_hkw = torch.rand(5, 3, 7).softmax(1)
    label_hw = torch.randint(0, 3, (5, 7), dtype=torch.uint8)
    label_hw[0, :3] = 255
    total, pixels = log_loss(probability_hkw, label_hw).tolist()
    true = torch.nn.functional.nll_loss(
        probability_hkw.transpose(0, 1)[None].log(), label_hw[None].long(), ignore_index=255
    )
    assert pixels == 32
    assert total / pixels == pytest.approx(true.item(), rel=1e-5)
