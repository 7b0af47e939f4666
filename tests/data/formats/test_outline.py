"""Outlines along the edges of pixels give exactly the pixels that they go around."""

import numpy as np
import pytest
from numpy.typing import NDArray

from reconet.data.formats.brush import pack, unpack
from reconet.data.formats.draw import Drawing, Part, Polygons, draw, outlines


def noise(seed: int) -> NDArray[np.bool_]:
    """Draw blots of many shapes: with holes, blots in holes, and pixels that touch by a corner."""
    rng = np.random.default_rng(seed)
    height, width = rng.integers(1, 30, 2)
    blot_hw = rng.random((height, width)) < rng.uniform(0.2, 0.9)
    return np.kron(blot_hw, np.ones((1 + seed % 3, 1 + seed % 2))).astype(bool)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("seed", range(40))
def test_the_outlines_of_all_areas_give_the_pixels_here_and_in_the_reference_of_coco(
    seed: int,
) -> None:
    coco = pytest.importorskip("pycocotools.mask")
    inside_hw = noise(seed)
    ours_hw, coco_hw = np.zeros((2, *inside_hw.shape), int)
    for ring_n2 in outlines(inside_hw):
        ring = ring_n2.ravel().tolist()
        part = Part("x", Polygons([ring]), "0")
        ours_hw += draw(Drawing("a", inside_hw.shape[0], inside_hw.shape[1], [part], {"x": 1}))
        coco_hw += coco.decode(coco.frPyObjects([ring], *inside_hw.shape))[..., 0]
    assert np.array_equal(ours_hw, inside_hw)
    assert np.array_equal(coco_hw, inside_hw)


def test_an_area_with_a_hole_is_one_ring_of_corners() -> None:
    inside_hw = np.ones((5, 7), np.bool_)
    assert sorted(map(tuple, next(outlines(inside_hw)).tolist())) == [
        (0, 0),
        (0, 5),
        (7, 0),
        (7, 5),
    ]
    inside_hw[2, 2:5] = False
    (ring_n2,) = outlines(inside_hw)
    steps_n2 = np.roll(ring_n2, -1, axis=0) - ring_n2
    assert ((steps_n2 == 0).sum(1) == 1).all(), "each step is along the edges of pixels"


def test_many_holes_are_joined_in_time() -> None:
    inside_hw = np.random.default_rng(0).random((200, 300)) < 0.8
    assert sum(len(ring_n2) for ring_n2 in outlines(inside_hw)) > 10_000


@pytest.mark.parametrize("seed", range(10))
def test_brush_strokes_give_the_pixels_back(seed: int) -> None:
    inside_hw = noise(seed)
    value_n = unpack(pack(inside_hw), 4 * inside_hw.size)
    assert np.array_equal(value_n.reshape(*inside_hw.shape, 4)[..., 3] > 0, inside_hw)


def test_a_long_run_of_a_brush_is_packed_in_parts() -> None:
    inside_hw = np.ones((200, 200), np.bool_)  # 160,000 values, more than 16 bits hold
    assert unpack(pack(inside_hw), 4 * inside_hw.size).all()
