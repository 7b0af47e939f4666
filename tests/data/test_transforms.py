"""The crop that is cut first and resampled after equals the one that is resampled first."""

from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from reconet.data.dataset import Sample
from reconet.data.transforms import (
    Augmentation,
    AxisWindow,
    Window,
    augment,
    choose_window,
    crop_image,
    place_window,
    void_crop,
)
from reconet.types import IGNORE, MEAN_COLOUR, Image

side = st.integers(1, 700)
small = st.integers(1, 300)


def noise(height: int, width: int, seed: int = 0) -> Sample:
    rng = np.random.default_rng(seed)
    image_hwc = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Sample("noise", image_hwc, rng.integers(0, 21, (height, width), dtype=np.uint8))


def coordinates(axis: AxisWindow) -> NDArray[Any]:
    """Compute where the window samples the source, by the formula of the module's docstring."""
    return np.asarray(axis.start + (axis.offset + np.arange(axis.length) + 0.5) / axis.zoom - 0.5)


def bilinear(image_hwc: NDArray[np.uint8], y_h: NDArray[Any], x_w: NDArray[Any]) -> NDArray[Any]:
    """Sample bilinearly, the slow and obvious way. Edges are repeated."""
    result_hwc = image_hwc.astype(np.float64)
    for dim, position_n in enumerate((y_h, x_w)):
        low_n, last = np.floor(position_n), result_hwc.shape[dim] - 1
        before_n, after_n = (np.clip(low_n + i, 0, last).astype(int) for i in (0, 1))
        weight = np.expand_dims(position_n - low_n, (1 - dim, 2))
        before, after = result_hwc.take(before_n, dim), result_hwc.take(after_n, dim)
        result_hwc = before * (1 - weight) + after * weight
    return result_hwc


def cropped(image_hwc: Image, window: Window) -> NDArray[np.int64]:
    """Return what `crop_image` writes into a larger array. It may write nothing else there."""
    height, width = window.rows.length, window.columns.length
    larger_hwc = np.full((height + 2, width + 3, 3), 77, np.uint8)
    crop_image(image_hwc, window, larger_hwc[:height, :width])
    assert (larger_hwc[height:] == 77).all()
    assert (larger_hwc[:, width:] == 77).all()
    return larger_hwc[:height, :width].astype(np.int64)


@given(
    height=side, width=side, crop_h=small, crop_w=small, base_size=st.integers(1, 800), seed=small
)
@settings(max_examples=150, deadline=None)
def test_any_image_gives_the_crop_and_only_labels_it_had(
    height: int, width: int, crop_h: int, crop_w: int, base_size: int, seed: int
) -> None:
    sample = noise(height, width)
    augmentation = Augmentation(crop=(crop_h, crop_w), base_size=base_size)
    name, image_hwc, label_hw = augment(sample, augmentation, np.random.default_rng(seed))
    assert name == sample.name
    assert image_hwc.shape == (crop_h, crop_w, 3)
    assert label_hw.shape == (crop_h, crop_w)
    assert image_hwc.dtype == label_hw.dtype == np.uint8
    assert set(np.unique(label_hw)) <= {*np.unique(sample.label_hw), IGNORE}


@given(
    size=side,
    zoom=st.floats(0.01, 8),
    crop=st.integers(1, 1100),
    position=st.floats(0, 1, exclude_max=True),
)
@settings(max_examples=500, deadline=None)
def test_a_window_lies_in_the_image_and_is_no_larger_than_the_crop_needs(
    size: int, zoom: float, crop: int, position: float
) -> None:
    axis = place_window(size, zoom, crop, position)
    scaled = round(size * axis.zoom)
    assert 0 <= axis.start < axis.stop <= size
    assert axis.offset >= 0
    assert axis.length == min(crop, scaled) >= 1
    assert axis.stop - axis.start <= (axis.length + 1) / axis.zoom + 5
    assert axis.offset + axis.length <= round((axis.stop - axis.start) * axis.zoom)
    drawn = int(position * (scaled - axis.length + 1))
    assert abs(axis.start * axis.zoom + axis.offset - drawn) <= 1


@given(height=side, width=side, zoom=st.floats(0.5, 3), seed=small)
@settings(max_examples=150, deadline=None)
def test_the_crop_equals_slow_sampling_of_the_whole_image(
    height: int, width: int, zoom: float, seed: int
) -> None:
    """Allow 2 of 255 levels, for the fixed-point weights of cv2.resize."""
    sample = noise(height, width)
    augmentation = Augmentation(
        crop=(96, 128), base_size=max(1, int(zoom * max(height, width))), scale=(1, 1)
    )
    window = choose_window((height, width), augmentation, np.random.default_rng(seed))
    if min(window.rows.zoom, window.columns.zoom) < 0.5:
        return
    y_h, x_w = coordinates(window.rows), coordinates(window.columns)
    x_w = x_w[::-1] if window.mirrored else x_w
    expected_hwc = bilinear(sample.image_hwc, y_h, x_w)
    assert np.abs(cropped(sample.image_hwc, window) - expected_hwc).max() <= 2


@pytest.mark.parametrize("zoom", [0.25, 0.5, 1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_at_whole_zooms_it_equals_resize_all_then_pad_then_crop(zoom: float, seed: int) -> None:
    sample = noise(120, 200, seed)
    augmentation = Augmentation(
        crop=(130, 170), base_size=round(200 * zoom), scale=(1, 1), flip=False
    )
    rows, columns, _ = choose_window((120, 200), augmentation, np.random.default_rng(seed))
    method = cv2.INTER_AREA if zoom < 0.5 else cv2.INTER_LINEAR
    whole_hwc = cv2.resize(
        sample.image_hwc, (round(200 * zoom), round(120 * zoom)), interpolation=method
    )
    below, right = max(0, 130 - whole_hwc.shape[0]), max(0, 170 - whole_hwc.shape[1])
    whole_hwc = cv2.copyMakeBorder(
        whole_hwc, 0, below, 0, right, cv2.BORDER_CONSTANT, value=MEAN_COLOUR
    )
    top, left = (round(axis.start * zoom) + axis.offset for axis in (rows, columns))
    crop_hwc = whole_hwc[top : top + 130, left : left + 170].astype(int)
    result_hwc = augment(sample, augmentation, np.random.default_rng(seed)).image_hwc
    assert np.abs(result_hwc - crop_hwc).max() <= 1


@pytest.mark.parametrize("zoom", [0.2, 0.31, 0.5, 0.77, 1, 1.3, 1.9, 2.7])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("seed", range(4))
def test_image_and_label_are_not_shifted_against_each_other(
    zoom: float, dim: int, seed: int
) -> None:
    """Compare black and white stripes: the grey value of a pixel says which stripe has its centre.

    A shift of half a pixel would change one pixel at each of hundreds of edges. 4 levels are
    allowed for rounding where the centre is just on an edge. Where areas are averaged, stripes
    must be wider.
    """
    rng = np.random.default_rng(seed)
    widths = rng.integers(1, 4, 400) if zoom >= 0.5 else rng.integers(6, 12, 80)
    stripe_n = np.repeat(np.arange(len(widths)) % 2, widths)[:450].astype(np.uint8)
    label_hw = (
        np.repeat(stripe_n[:, None], 450, 1) if dim == 0 else np.repeat(stripe_n[None], 450, 0)
    )
    image_hwc = np.repeat(label_hw[..., None] * np.uint8(255), 3, 2)
    augmentation = Augmentation(crop=(150, 180), base_size=round(450 * zoom), scale=(1, 1))
    _, image_hwc, label_hw = augment(Sample("stripes", image_hwc, label_hw), augmentation, rng)
    labelled_hw = label_hw != IGNORE
    grey_n = image_hwc[..., 0][labelled_hw].astype(float)
    clear_n = np.abs(grey_n - 127.5) > 4
    assert clear_n.mean() > 0.4
    assert np.array_equal((grey_n > 127.5)[clear_n], label_hw[labelled_hw][clear_n] == 1)


def test_the_same_generator_gives_the_same_crop_and_leaves_the_image_alone() -> None:
    sample, augmentation = noise(90, 110), Augmentation(crop=(64, 64), base_size=130)
    image_hwc, label_hw = sample.image_hwc.copy(), sample.label_hw.copy()
    sample.image_hwc.flags.writeable = sample.label_hw.flags.writeable = False
    first, again, other = (
        augment(sample, augmentation, np.random.default_rng(s)) for s in (1, 1, 2)
    )
    assert np.array_equal(first.image_hwc, again.image_hwc)
    assert np.array_equal(first.label_hw, again.label_hw)
    assert not np.array_equal(first.image_hwc, other.image_hwc)
    assert np.array_equal(sample.image_hwc, image_hwc)
    assert np.array_equal(sample.label_hw, label_hw)


def test_padding_is_mean_colour_and_ignored_at_the_right_and_below() -> None:
    augmentation = Augmentation(crop=(60, 50), base_size=40, scale=(1, 1))
    _, image_hwc, label_hw = augment(noise(30, 40), augmentation, np.random.default_rng(0))
    assert (label_hw[:30, :40] != IGNORE).all()
    for part_hwc, part_hw in (
        (image_hwc[30:], label_hw[30:]),
        (image_hwc[:, 40:], label_hw[:, 40:]),
    ):
        assert (part_hwc == MEAN_COLOUR).all()
        assert (part_hw == IGNORE).all()


def test_scale_is_uniform_over_its_range_and_relative_to_the_long_side() -> None:
    augmentation = Augmentation(crop=(2000, 2000), base_size=100, scale=(0.5, 2.0))
    rng = np.random.default_rng(0)
    longest = [choose_window((300, 400), augmentation, rng).columns.length for _ in range(2000)]
    shortest = [choose_window((400, 300), augmentation, rng).columns.length for _ in range(2000)]
    assert min(longest) == pytest.approx(50, abs=1)
    assert max(longest) == pytest.approx(200, abs=1)
    assert np.mean(longest) == pytest.approx(125, abs=4)
    assert np.mean(shortest) == pytest.approx(125 * 0.75, abs=4)


def test_half_of_the_images_are_mirrored_and_none_if_not_asked() -> None:
    sample = noise(64, 64)
    plain, mirrored = (
        Augmentation(crop=(48, 48), flip=False),
        Augmentation(crop=(48, 48), flip=True),
    )
    flipped = 0
    for seed in range(200):
        straight = augment(sample, plain, np.random.default_rng(seed))
        maybe = augment(sample, mirrored, np.random.default_rng(seed))
        same = np.array_equal(straight.image_hwc, maybe.image_hwc)
        flipped += not same
        if not same:
            assert np.array_equal(straight.image_hwc[:, ::-1], maybe.image_hwc)
            assert np.array_equal(straight.label_hw[:, ::-1], maybe.label_hw)
    assert 70 < flipped < 130


def test_a_void_crop_has_nothing_to_learn_from() -> None:
    name, image_hwc, label_hw = void_crop("broken", Augmentation(crop=(3, 5)))
    assert (name, image_hwc.shape, label_hw.shape) == ("broken", (3, 5, 3), (3, 5))
    assert (label_hw == IGNORE).all()
    assert (image_hwc == MEAN_COLOUR).all()
