"""Colours, blur, noise, turns, rotation and erasing, each against an obvious version."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from reconet.data.changes import (
    Chances,
    change_crop,
    colour_matrix,
    draw_chances,
    rotate,
    size_before,
)
from reconet.data.dataset import Sample
from reconet.data.transforms import Augmentation, augment
from reconet.recipes import Augment
from reconet.types import IGNORE, MEAN_COLOUR, Image, Label
from tests.factories import smooth_image

EVERYTHING = Augment(
    brightness=0.3,
    contrast=0.3,
    saturation=0.5,
    hue=0.1,
    blur=2.0,
    jpeg=40,
    rotation=30,
    flip_vertical=True,
    turn=True,
    erase=0.3,
)
PLAIN = Chances(*[0.5] * len(Chances._fields))  # changes nothing, unless a setting turns


def sample(height: int = 50, width: int = 70, seed: int = 0) -> Sample:
    """Draw an image whose labels and colours belong together: label = red // 13."""
    image_hwc = smooth_image(seed, height, width)
    return Sample("some", image_hwc, (image_hwc[..., 0] // 13).astype(np.uint8))


def change(image_hwc: Image, label_hw: Label, settings: Augment, **chance: float) -> Any:
    size = label_hw.shape
    return change_crop(image_hwc, label_hw, (size[0], size[1]), settings, PLAIN._replace(**chance))


def test_the_numbers_come_from_a_stream_of_their_own() -> None:
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    assert draw_chances(one) == draw_chances(other)
    assert draw_chances(np.random.default_rng(4)) != draw_chances(one)
    assert one.random() == np.random.default_rng(3).random()


def test_a_change_of_colours_does_not_move_the_crop() -> None:
    plain = Augmentation(crop=(32, 40), base_size=60)
    colours = Augmentation(crop=(32, 40), base_size=60, augment=Augment(brightness=0.5, jpeg=20))
    for seed in range(6):
        one = augment(sample(), plain, np.random.default_rng(seed))
        two = augment(sample(), colours, np.random.default_rng(seed))
        assert np.array_equal(one.label_hw, two.label_hw)
        assert not np.array_equal(one.image_hwc, two.image_hwc)


@pytest.mark.parametrize("settings", [EVERYTHING, Augment(rotation=180), Augment(erase=0.5)])
@pytest.mark.parametrize(("crop", "base_size"), [((32, 40), 90), ((64, 30), 40), ((1, 7), 20)])
def test_any_change_gives_the_crop_and_only_labels_it_had(
    settings: Augment, crop: tuple[int, int], base_size: int
) -> None:
    source = sample()
    augmentation = Augmentation(crop=crop, base_size=base_size, augment=settings)
    for seed in range(8):
        _, image_hwc, label_hw = augment(source, augmentation, np.random.default_rng(seed))
        again = augment(source, augmentation, np.random.default_rng(seed))
        assert image_hwc.shape == (*crop, 3)
        assert label_hw.shape == crop
        assert set(np.unique(label_hw)) <= {*np.unique(source.label_hw), IGNORE}
        assert np.array_equal(again.image_hwc, image_hwc)
        assert np.array_equal(again.label_hw, label_hw)


def slow_colours(rgb: NDArray[Any], mean: float, factors: tuple[float, ...]) -> NDArray[Any]:
    """Apply saturation, brightness and contrast, one after another."""
    brightness, contrast, saturation = factors
    grey = rgb.mean(-1, keepdims=True)
    rgb = grey + saturation * (rgb - grey)
    rgb = brightness * rgb
    return np.asarray(brightness * mean + contrast * (rgb - brightness * mean))


def test_colours_agree_with_one_change_after_another() -> None:
    image_hwc = np.random.default_rng(0).integers(60, 190, (9, 11, 3), dtype=np.uint8)
    settings = Augment(brightness=0.1, contrast=0.2, saturation=0.3)
    changed_hwc, _ = change(
        image_hwc, image_hwc[..., 0], settings, brightness=0.9, contrast=0.1, saturation=0.75
    )
    expected_hwc = slow_colours(image_hwc.astype(float), image_hwc.mean(), (1.08, 0.84, 1.15))
    assert np.abs(changed_hwc - expected_hwc.clip(0, 255)).max() <= 1  # cv2 counts in parts


def test_a_third_of_the_colour_circle_turns_red_to_green_and_keeps_greys() -> None:
    settings = Augment(hue=0.5)
    matrix_34 = colour_matrix(100.0, settings, PLAIN._replace(hue=0.5 + 1 / 3))
    assert matrix_34 @ [200, 0, 0, 1] == pytest.approx([0, 200, 0], abs=1e-9)
    assert matrix_34 @ [80, 80, 80, 1] == pytest.approx([80, 80, 80])
    assert colour_matrix(100.0, settings, PLAIN) == pytest.approx(np.eye(3, 4))


def test_blur_smooths_half_of_the_images_and_keeps_the_mean() -> None:
    image_hwc = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    settings = Augment(blur=2.0)
    sharp_hwc, _ = change(image_hwc, image_hwc[..., 0], settings, has_blur=0.7, blur=1.0)
    soft_hwc, label_hw = change(image_hwc, image_hwc[..., 0], settings, has_blur=0.2, blur=1.0)
    assert np.array_equal(sharp_hwc, image_hwc)
    assert np.array_equal(label_hw, image_hwc[..., 0])
    assert soft_hwc.std() < 0.3 * image_hwc.std()
    assert soft_hwc.mean() == pytest.approx(image_hwc.mean(), abs=2)


def test_jpeg_noise_grows_as_the_quality_falls_and_keeps_the_channels() -> None:
    image_hwc = smooth_image(1, 40, 56)
    noise = []
    for quality in (95, 40, 5):
        changed_hwc, _ = change(
            image_hwc, image_hwc[..., 0], Augment(jpeg=quality), has_jpeg=0.1, jpeg=0.0
        )
        noise.append(np.abs(changed_hwc.astype(float) - image_hwc).mean())
    assert 0 < noise[0] < noise[1] < noise[2]
    assert noise[0] < 4  # swapped channels would be far off
    kept_hwc, _ = change(image_hwc, image_hwc[..., 0], Augment(jpeg=5), has_jpeg=0.9)
    assert np.array_equal(kept_hwc, image_hwc)


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("upside_down", [False, True])
def test_turns_move_image_and_labels_alike_without_loss(turns: int, upside_down: bool) -> None:
    _, image_hwc, label_hw = sample()
    settings = Augment(turn=True, flip_vertical=True)
    flip = 0.2 if upside_down else 0.8
    chance = PLAIN._replace(turn=(turns + 0.5) / 4, flip=flip)
    expected_hwc, expected_hw = np.rot90(image_hwc, turns), np.rot90(label_hw, turns)
    if upside_down:
        expected_hwc, expected_hw = np.flipud(expected_hwc), np.flipud(expected_hw)
    height, width = expected_hw.shape
    assert size_before((height, width), settings, chance) == label_hw.shape
    changed_hwc, changed_hw = change_crop(image_hwc, label_hw, (height, width), settings, chance)
    assert np.array_equal(changed_hwc, expected_hwc)
    assert np.array_equal(changed_hw, expected_hw)


def slow_rotation(label_hw: Label, angle: float, crop: tuple[int, int]) -> NDArray[Any]:
    """Return where each pixel of the result lies in the source, as (row, column)."""
    height, width = label_hw.shape
    place_hw2 = np.zeros((*crop, 2))
    for y in range(crop[0]):
        for x in range(crop[1]):
            across, down = x - (crop[1] - 1) / 2, y - (crop[0] - 1) / 2
            place_hw2[y, x] = (
                (height - 1) / 2 + math.sin(angle) * across + math.cos(angle) * down,
                (width - 1) / 2 + math.cos(angle) * across - math.sin(angle) * down,
            )
    return place_hw2


@pytest.mark.parametrize(("crop", "degrees"), [((21, 30), 17), ((30, 21), -50), ((61, 80), 180)])
def test_a_rotation_takes_the_nearest_label_and_void_outside(
    crop: tuple[int, int], degrees: float
) -> None:
    label_hw = np.random.default_rng(0).integers(0, 200, (37, 44), dtype=np.uint8)
    angle = math.radians(degrees)
    _, turned_hw = rotate(np.stack([label_hw] * 3, -1), label_hw, angle, crop)
    place_hw2 = slow_rotation(label_hw, angle, crop)
    # Places at the border between two pixels may go either way: cv2 counts in parts of a pixel.
    clear_hw = (np.abs((place_hw2 % 1) - 0.5) > 0.04).all(-1)
    assert clear_hw.mean() > 0.7
    row_hw, column_hw = np.rint(place_hw2).astype(int).transpose(2, 0, 1)
    inside_hw = (row_hw >= 0) & (row_hw < 37) & (column_hw >= 0) & (column_hw < 44)
    expected_hw = np.full(crop, IGNORE)
    expected_hw[inside_hw] = label_hw[row_hw[inside_hw], column_hw[inside_hw]]
    assert (turned_hw == expected_hw)[clear_hw].all()
    assert (~inside_hw).any() == (turned_hw == IGNORE).any()


def test_image_and_labels_stay_together_in_a_rotation() -> None:
    source = sample(80, 80)
    augmentation = Augmentation(crop=(40, 40), base_size=80, augment=Augment(rotation=40))
    _, image_hwc, label_hw = augment(source, augmentation, np.random.default_rng(1))
    known_hw = label_hw != IGNORE
    near_hw = np.abs(image_hwc[..., 0] / 13 - 0.5 - label_hw) < 1
    assert near_hw[known_hw].mean() > 0.95


def test_a_rotated_crop_is_full_where_the_image_is_large_enough() -> None:
    augmentation = Augmentation(
        crop=(40, 60), base_size=400, scale=(1, 1), augment=Augment(rotation=180)
    )
    for seed in range(6):
        _, _, label_hw = augment(sample(200, 200), augmentation, np.random.default_rng(seed))
        assert (label_hw != IGNORE).all()


def test_an_erased_rectangle_is_padding_without_labels() -> None:
    _, image_hwc, label_hw = sample(60, 90)
    changed_hwc, changed_hw = change(
        image_hwc, label_hw.copy(), Augment(erase=0.2), has_hole=0.3, area=1.0, top=0.5, left=0.99
    )
    hole_hw = changed_hw == IGNORE
    rows, columns = np.flatnonzero(hole_hw.any(1)), np.flatnonzero(hole_hw.any(0))
    assert hole_hw.sum() == len(rows) * len(columns)  # it is one rectangle
    assert hole_hw.mean() == pytest.approx(0.2, rel=0.1)
    assert (changed_hwc[hole_hw] == MEAN_COLOUR).all()
    assert np.array_equal(changed_hwc[~hole_hw], image_hwc[~hole_hw])
    kept_hwc, _ = change(image_hwc, label_hw, Augment(erase=0.2), has_hole=0.6, area=1.0)
    assert np.array_equal(kept_hwc, image_hwc)


def test_the_key_of_a_cache_names_changes_only_if_there_are_any() -> None:
    plain = Augmentation(crop=(32, 40), base_size=60)
    assert plain.key() == ("Augmentation(crop=(32, 40), base_size=60, scale=(0.5, 2.0), flip=True)")
    keys = {
        Augmentation(crop=(32, 40), base_size=60, augment=augment_).key()
        for augment_ in (Augment(), Augment(hue=0.1), Augment(hue=0.2), Augment(jpeg=50))
    }
    assert len(keys) == 4
