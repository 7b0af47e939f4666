"""Predictor: what it takes and returns, alone, in batches, in bands, from several threads."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from reconet.errors import DataError, RecipeError
from reconet.inference import Prediction, Predictor, predict_labels
from reconet.types import Image
from tests.factories import smooth_image


def same_part(one: Prediction, other: Prediction) -> float:
    return float((one.label_hw == other.label_hw).mean())


def test_labels_are_those_of_the_network_as_it_was_trained(predictor: Predictor) -> None:
    image_hwc = smooth_image(0)
    model = predictor.network.model
    assert model is not None
    expected_hw = predict_labels(
        model.eval().coarse,
        torch.from_numpy(image_hwc),
        predictor.protocol,
        len(predictor.classes),
    )
    prediction = predictor(image_hwc)
    assert prediction.label_hw.shape == (30, 44)
    assert (prediction.label_hw == expected_hw.numpy()).mean() > 0.998
    assert len(np.unique(prediction.label_hw)) > 1, "a network without an opinion tests nothing"


@pytest.mark.parametrize("flip", [False, True])
def test_a_batch_says_what_single_calls_say(predictor: Predictor, flip: bool) -> None:
    protocol = replace(predictor.protocol, base_size=32, scales=(1.0, 0.5), flip=flip, batch=8)
    together = Predictor(predictor.network, protocol=protocol, device="cpu")
    sizes = [(30, 44), (44, 30), (30, 44), (30, 44)]
    images = [smooth_image(seed, *size) for seed, size in enumerate(sizes)]
    shown: list[int] = []

    def watch(image_bchw: torch.Tensor) -> torch.Tensor:
        shown.append(len(image_bchw))
        return predictor.network.forward(image_bchw)

    watched = replace(predictor.network, forward=watch)
    batch = Predictor(watched, protocol=protocol, device="cpu")(images, with_probabilities=True)
    assert max(shown) > (2 if flip else 1), "images of one size were not shown together"
    for image_hwc, prediction in zip(images, batch, strict=True):
        alone = together(image_hwc, with_probabilities=True)
        assert alone.probability_khw is not None
        assert prediction.probability_khw is not None
        np.testing.assert_allclose(prediction.probability_khw, alone.probability_khw, atol=1e-4)
        assert same_part(prediction, alone) > 0.998


def test_bands_say_what_the_whole_says(predictor: Predictor) -> None:
    image_hwc = smooth_image(3, 90, 61)
    few = 4 * len(predictor.classes) * 61 * 8 * 7  # seven rows at a time
    protocol = replace(predictor.protocol, budget_bytes=few, batch=1)
    in_bands = Predictor(predictor.network, protocol=protocol, device="cpu")(image_hwc)
    alone = replace(predictor.protocol, batch=1)
    assert same_part(in_bands, Predictor(predictor.network, protocol=alone)(image_hwc)) > 0.998


def test_probabilities_add_up_and_do_not_change_the_labels(predictor: Predictor) -> None:
    prediction = predictor(smooth_image(1), with_probabilities=True)
    assert prediction.probability_khw is not None
    np.testing.assert_allclose(prediction.probability_khw.sum(0), 1, rtol=1e-5)
    assert np.array_equal(prediction.label_hw, predictor(smooth_image(1)).label_hw)
    assert np.array_equal(prediction.label_hw, prediction.probability_khw.argmax(0))


def test_best_is_the_class_and_its_probability_without_the_others(predictor: Predictor) -> None:
    image_hwc = smooth_image(1, 90, 61)
    few = 4 * len(predictor.classes) * 61 * 8 * 7  # bands of seven rows
    in_bands = replace(predictor.protocol, budget_bytes=few)
    for protocol in (predictor.protocol, in_bands):
        fresh = Predictor(predictor.network, protocol=protocol, device="cpu")
        label_hw, probability_hw = fresh.best(image_hwc)
        expected = fresh(image_hwc, with_probabilities=True)
        assert expected.probability_khw is not None
        assert np.array_equal(label_hw, expected.label_hw)
        assert label_hw.dtype == probability_hw.dtype == np.uint8
        byte_hw = np.rint(255 * expected.probability_khw.max(0))
        assert np.array_equal(probability_hw, byte_hw.clip(0, 255))


def test_threads_that_share_a_predictor_get_what_one_gets(predictor: Predictor) -> None:
    images = [smooth_image(seed, 20 + seed, 40) for seed in range(6)]
    serial = [predictor(image_hwc) for image_hwc in images]
    with ThreadPoolExecutor(4) as threads:
        for prediction, alone in zip(threads.map(predictor, images * 2), serial * 2, strict=True):
            assert np.array_equal(prediction.label_hw, alone.label_hw)


@pytest.mark.parametrize("size", [(1, 1), (1, 20000), (20000, 1), (2, 3)])
@pytest.mark.parametrize("mode", ["slide", "whole"])
def test_any_size_works(predictor: Predictor, size: tuple[int, int], mode: str) -> None:
    protocol = replace(predictor.protocol, mode=mode)  # type: ignore[arg-type]
    prediction = Predictor(predictor.network, protocol=protocol)(np.full((*size, 3), 90, np.uint8))
    assert prediction.label_hw.shape == size
    assert prediction.label_hw.max() < len(predictor.classes)
    assert prediction.overlay().size == size[::-1]


def test_an_overlay_in_strips_is_the_overlay() -> None:
    image_hwc, palette = smooth_image(5, 600, 3), ((255, 0, 0), (0, 255, 0))
    label_hw = (image_hwc[..., 0] > 128).astype(np.uint8)
    prediction = Prediction(
        image_hwc=image_hwc, label_hw=label_hw, classes=("a", "b"), palette=palette
    )
    expected = (image_hwc / 2 + np.array(palette)[label_hw] / 2).round()
    assert np.abs(np.asarray(prediction.overlay()) - expected).max() <= 1


def test_shares_are_parts_of_the_image(predictor: Predictor) -> None:
    prediction = replace(predictor(smooth_image(2)), label_hw=np.array([[3, 3, 0, 3]], np.uint8))
    assert prediction.shares() == {prediction.classes[3]: 0.75, prediction.classes[0]: 0.25}


def test_files_pillow_images_and_arrays_mean_the_same(predictor: Predictor, tmp_path: Path) -> None:
    image_hwc = smooth_image(4)
    path = tmp_path / "a.png"
    Pillow.fromarray(image_hwc).save(path)
    alpha_hwc = np.dstack([image_hwc, np.zeros((30, 44, 1), np.uint8)])
    for other in (str(path), path, Pillow.open(path), alpha_hwc, Pillow.fromarray(alpha_hwc)):
        assert np.array_equal(predictor(other).label_hw, predictor(image_hwc).label_hw)
    grey_hw = image_hwc[..., 0]
    expected = predictor(np.repeat(grey_hw[..., None], 3, axis=2))
    for other in (grey_hw, Pillow.fromarray(grey_hw.astype(np.uint16) << 8)):
        assert np.array_equal(predictor(other).label_hw, expected.label_hw)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((4, 4, 3)), "got float64"),
        (np.zeros((3, 4, 5), np.uint8), r"got uint8 \(3, 4, 5\)"),
        (np.zeros((0, 5, 3), np.uint8), "needs pixels"),
        (7, "got int"),
        (torch.zeros(3, 4, 5), r"got a tensor \(3, 4, 5\); .*permute\(1, 2, 0\)"),
    ],
)
def test_what_is_no_image_is_explained(predictor: Predictor, wrong: Image, message: str) -> None:
    with pytest.raises(DataError, match=message):
        predictor(wrong)


def test_what_is_printed_of_them_is_short_and_says_what_they_are(predictor: Predictor) -> None:
    prediction = replace(predictor(smooth_image(2)), label_hw=np.array([[3, 3, 0, 3]], np.uint8))
    names = prediction.classes
    assert repr(prediction) == f"Prediction(4 x 1: {names[3]} 75.0 %, {names[0]} 25.0 %)"
    assert repr(predictor).startswith("Predictor(reconet on resnet18, ")
    assert len(repr(predictor)) < 300


def test_a_device_that_is_not_here_is_named_without_an_option_of_the_verbs(run: Path) -> None:
    with pytest.raises(RecipeError, match=r"no device 'gpu' here; try cpu\.$"):
        Predictor.from_run(run, device="gpu")


def test_bytes_and_open_files_are_images_too(run: Path, tmp_path: Path) -> None:
    segment = Predictor.from_run(run, device="cpu", precision="fp32")
    path = tmp_path / "a.png"
    Pillow.fromarray(smooth_image(3)).save(path)
    expected_hw = segment(path).label_hw
    np.testing.assert_array_equal(segment(path.read_bytes()).label_hw, expected_hw)
    with path.open("rb") as file:
        np.testing.assert_array_equal(segment(file).label_hw, expected_hw)
    with pytest.raises(DataError, match="the image is empty"):
        segment(b"")
