"""Polygons along the edges of pixels give exactly the pixels that they were traced from."""

import numpy as np
import pytest
from numpy.typing import NDArray

from reconet.data.formats.brush import pack, unpack
from reconet.data.formats.draw import RowRuns, fill_polygon
from reconet.data.prelabels.cvat import row_runs
from reconet.data.prelabels.outline import Area, areas_of, box_of
from tests.data.formats.areas import outline


def noise(seed: int) -> NDArray[np.uint8]:
    """Draw blots of many shapes: with holes, blots in holes, and pixels that touch by a corner."""
    rng = np.random.default_rng(seed)
    height, width = rng.integers(1, 30, 2)
    blot_hw = rng.random((height, width)) < rng.uniform(0.2, 0.9)
    return np.kron(blot_hw, np.ones((1 + seed % 3, 1 + seed % 2))).astype(np.uint8)


def filled(ring: list[tuple[int, int]], height: int, width: int) -> NDArray[np.bool_]:
    inside_hw = np.zeros((height, width), np.bool_)
    top, left, patch_hw = fill_polygon(
        [value for corner in ring for value in corner], height, width
    )
    inside_hw[top : top + patch_hw.shape[0], left : left + patch_hw.shape[1]] = patch_hw
    return inside_hw


def placed(area: Area, height: int, width: int) -> NDArray[np.bool_]:
    inside_hw = np.zeros((height, width), np.bool_)
    tall, wide = area.inside_hw.shape
    inside_hw[area.top : area.top + tall, area.left : area.left + wide] = area.inside_hw
    return inside_hw


@pytest.mark.parametrize("seed", range(40))
def test_each_ring_gives_its_area_and_all_areas_give_the_labels(seed: int) -> None:
    label_hw = noise(seed)
    covered_hw = np.zeros(label_hw.shape, int)
    for area in areas_of(label_hw, 1):
        drawn_hw = filled(area.ring(), *label_hw.shape)
        assert np.array_equal(drawn_hw, placed(area, *label_hw.shape))
        covered_hw += drawn_hw
    assert np.array_equal(covered_hw, label_hw)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("seed", range(10))
def test_the_reference_of_coco_draws_the_same_pixels(seed: int) -> None:
    coco = pytest.importorskip("pycocotools.mask")
    label_hw = noise(seed)
    for area in areas_of(label_hw, 1):
        ring = [[value for corner in area.ring() for value in corner]]
        drawn_hw = coco.decode(coco.frPyObjects(ring, *label_hw.shape))[..., 0].astype(bool)
        assert np.array_equal(drawn_hw, placed(area, *label_hw.shape))


def test_an_area_without_holes_has_the_corners_of_a_slow_version() -> None:
    inside_hw = np.array([[0, 1, 1, 0], [1, 1, 1, 1], [0, 1, 0, 0]], np.uint8)
    (area,) = areas_of(inside_hw, 1)
    slow = outline(inside_hw.astype(bool))  # in steps of one pixel
    steps = list(zip(slow[::2], slow[1::2], strict=True))
    corners = [
        here
        for before, here, after in zip(
            [steps[-1], *steps], steps, [*steps[1:], steps[0]], strict=False
        )
        if (before[0] == here[0]) != (here[0] == after[0])
    ]
    assert sorted(area.ring()) == sorted(corners)


def test_a_hole_is_joined_inside_the_area() -> None:
    inside_hw = np.ones((5, 7), np.bool_)
    inside_hw[2, 2:5] = False
    (area,) = areas_of(inside_hw.astype(np.uint8), 1)
    line = [(2, 0), (2, 3)]  # it goes on along the hole
    assert area.ring()[1:3] == line
    assert area.ring()[-4:-2] == [(2, 0), (7, 0)], "and comes back"


@pytest.mark.parametrize("seed", range(10))
def test_run_lengths_and_brush_strokes_give_the_pixels_back(seed: int) -> None:
    inside_hw = noise(seed).astype(bool)
    height, width = inside_hw.shape
    if inside_hw.any():
        left, top, wide, tall = box_of(inside_hw)
        cut_hw = inside_hw[top : top + tall, left : left + wide]
        runs = RowRuns(row_runs(cut_hw), top, left, tall, wide).patch(height, width)
        assert np.array_equal(runs.inside_hw, cut_hw)
        assert inside_hw.sum() == cut_hw.sum()
    value_n = unpack(pack(inside_hw), 4 * inside_hw.size)
    assert np.array_equal(value_n.reshape(height, width, 4)[..., 3] > 0, inside_hw)


def test_a_long_run_of_a_brush_is_packed_in_parts() -> None:
    inside_hw = np.ones((200, 200), np.bool_)  # 160,000 values, more than 16 bits hold
    assert unpack(pack(inside_hw), 4 * inside_hw.size).all()
