"""Regions become pixels and pixels outlines: against slow, obvious versions."""

import tracemalloc
from pathlib import Path

import cv2
import numpy as np
import pytest
from matplotlib.path import Path as Outline
from numpy.typing import NDArray
from PIL import Image

from reconet.data.formats.brush import pack, unpack
from reconet.data.formats.coco import Runs
from reconet.data.formats.cvat import RowRuns
from reconet.data.formats.draw import (
    Drawing,
    Part,
    Polygons,
    Region,
    SegmentFile,
    draw,
    ellipse,
    outlines,
    rectangle,
    turned,
)
from reconet.errors import DataError
from reconet.types import IGNORE

HEIGHT, WIDTH = 23, 31


def pixels(region: Region, height: int = HEIGHT, width: int = WIDTH) -> NDArray[np.bool_]:
    drawing = Drawing("a.json", height, width, [Part("x", region, "shapes[0]")], {"x": 1})
    return np.asarray(draw(drawing) == 1)


def centres_inside(ring: list[float]) -> NDArray[np.bool_]:
    y_n, x_n = np.mgrid[:HEIGHT, :WIDTH].reshape(2, -1) + 0.5
    corners = np.array(ring).reshape(-1, 2)
    inside = Outline(np.concatenate([corners, corners[:1]]), closed=True)
    return np.asarray(inside.contains_points(np.stack([x_n, y_n], 1)).reshape(HEIGHT, WIDTH))


@pytest.mark.parametrize("seed", range(20))
def test_a_pixel_is_inside_if_its_centre_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    centre, count = rng.uniform(-5, 35, 2), int(rng.integers(3, 9))
    angles = np.sort(rng.uniform(0, 2 * np.pi, count))
    radii = rng.uniform(2, 25, count)
    points = centre + np.stack([np.cos(angles), np.sin(angles)], 1) * radii[:, None]
    ring = points.ravel().tolist()
    assert np.array_equal(pixels(Polygons([ring])), centres_inside(ring))


def test_regions_have_their_pixels_and_none_beside_the_image() -> None:
    box_hw = pixels(rectangle(3, 4, 9, 11))
    assert box_hw.sum() == box_hw[4:11, 3:9].sum() == 6 * 7
    union_hw = pixels(Polygons([[-9, -9, 5, -9, 5, 5, -9, 5], [3, 3, 40, 3, 40, 40, 3, 40]]))
    expected_hw = np.zeros((HEIGHT, WIDTH), np.bool_)
    expected_hw[:5, :5] = expected_hw[3:, 3:] = True
    assert np.array_equal(union_hw, expected_hw)
    assert not pixels(rectangle(100, 100, 120, 120)).any()
    assert not pixels(RowRuns([0, 4], 50, 50, 2, 2)).any()
    assert pixels(RowRuns([0, 16], -2, -1, 4, 4)).sum() == 2 * 3
    assert pixels(ellipse(15, 11, 10, 6)).sum() == pytest.approx(np.pi * 60, rel=0.03)
    turned_hw = pixels(turned(rectangle(10, 8, 20, 12), 90, 15, 10))
    assert turned_hw.sum() == turned_hw[5:15, 13:17].sum() == 40


@pytest.mark.parametrize("far", [1e8, float("nan"), float("inf")])
def test_points_that_are_nowhere_near_are_refused(far: float) -> None:
    with pytest.raises(DataError, match=r"a.json, shapes\[0\]: its points are not near the image"):
        pixels(Polygons([[0, 0, far, 0, 1, 1]]))


def test_a_polygon_of_millions_of_long_edges_is_refused() -> None:
    ring = np.tile([0.0, 0.0, 5.0, 9000.0], 2000).tolist()
    with pytest.raises(DataError, match="too many"):
        pixels(Polygons([ring]), 10_000, 10)


@pytest.mark.parametrize(("smaller_on_top", "labels"), [(False, (2, 255, 2)), (True, (1, 255, 2))])
def test_later_or_smaller_regions_lie_on_top_and_crowds_below(
    smaller_on_top: bool, labels: tuple[int, ...]
) -> None:
    parts = [
        Part("small", rectangle(8, 8, 12, 12), "0"),
        Part("large", rectangle(5, 5, 20, 20), "1"),
        Part("ignore", rectangle(10, 10, 11, 11), "2"),
        Part("ignore", rectangle(6, 6, 7, 7), "3", below=True),
    ]
    names = {"small": 1, "large": 2, "ignore": IGNORE}
    label_hw = draw(Drawing("a", HEIGHT, WIDTH, parts, names, smaller_on_top))
    assert (label_hw[9, 9], label_hw[10, 10], label_hw[6, 6]) == labels


def memory_of(drawing: Drawing | SegmentFile) -> float:
    """Return the bytes that drawing takes at most, for each pixel."""
    tracemalloc.start()
    draw(drawing)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / (drawing.height * drawing.width)


@pytest.mark.parametrize("smaller_on_top", [False, True])
@pytest.mark.parametrize(
    ("region", "times", "most"),
    [
        (Polygons([[0, 0, 999, 0, 999, 999, 0, 999]] * 5), 20, 10),
        (RowRuns([0, 10**6], 999, 999, 1000, 1000), 20, 10),
        (Runs([0, 10**6], [1000, 1000]), 20, 10),
        (Polygons([[v for x in range(999) for v in (x, 1, x + 0.5, 998)]]), 1, 50),
    ],
)
def test_a_small_file_of_large_regions_takes_little_memory(
    region: Region, times: int, most: float, smaller_on_top: bool
) -> None:
    parts = [Part("x", region, str(number)) for number in range(times)]
    assert memory_of(Drawing("a", 1000, 1000, parts, {"x": 1}, smaller_on_top)) < most


def test_the_numbers_of_segments_take_little_memory(tmp_path: Path) -> None:
    rgb_hwc = np.arange(3 * 10**6, dtype=np.uint8).reshape(1000, 1000, 3)
    Image.fromarray(rgb_hwc).save(tmp_path / "a.png")
    assert memory_of(SegmentFile(tmp_path / "a.png", 1000, 1000, {}, {})) < 12


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
        steps_n2 = np.roll(ring_n2, -1, axis=0) - ring_n2
        assert ((steps_n2 == 0).sum(1) == 1).all(), "each step is along the edges of pixels"
        ours_hw += pixels(Polygons([ring]), *inside_hw.shape)
        coco_hw += coco.decode(coco.frPyObjects([ring], *inside_hw.shape))[..., 0]
    assert np.array_equal(ours_hw, inside_hw)
    assert np.array_equal(coco_hw, inside_hw)


def test_many_holes_are_joined_in_time() -> None:
    inside_hw = np.random.default_rng(0).random((200, 300)) < 0.8
    assert sum(len(ring_n2) for ring_n2 in outlines(inside_hw)) > 10_000


def changed(inside_hw: NDArray[np.bool_], tolerance: float) -> tuple[float, int, int]:
    """Return how far pixels that change are from an edge, and points with and without tolerance."""
    drawn_hw = np.zeros(inside_hw.shape, np.bool_)
    points = []
    for ring_n2 in outlines(inside_hw, tolerance):
        drawn_hw |= pixels(Polygons([ring_n2.ravel().tolist()]), *inside_hw.shape)
        points.append(len(ring_n2))
    far_hw = np.maximum(
        *(
            cv2.distanceTransform(np.pad(side_hw, 1, mode="edge"), cv2.DIST_L2, 5)[1:-1, 1:-1]
            for side_hw in (inside_hw.astype(np.uint8), 1 - inside_hw.astype(np.uint8))
        )
    )
    exact = sum(len(ring_n2) for ring_n2 in outlines(inside_hw))
    return float(far_hw[drawn_hw != inside_hw].max(initial=0)), sum(points), exact


def test_simplified_boards_have_few_points_and_their_corners() -> None:
    rng, counts = np.random.default_rng(0), []
    for angle in rng.uniform(0, 360, 100):
        wide, tall = rng.uniform(60, 200), rng.uniform(10, 60)
        board = turned(rectangle(0, 0, wide, tall), angle, wide / 2, tall / 2)
        board = Polygons([[value + 100 for value in board.rings[0]]])
        far, points, exact = changed(pixels(board, 400, 400), 1)
        assert far <= 1
        assert 4 <= points <= 8
        assert exact >= points
        counts.append(points)
    assert np.median(counts) == 4
    box = pixels(rectangle(3, 5, 21, 17), HEIGHT, WIDTH)
    [ring_n2] = outlines(box, 1)
    assert sorted(ring_n2.tolist()) == [[3, 5], [3, 17], [21, 5], [21, 17]]


@pytest.mark.parametrize("seed", range(20))
def test_simplified_outlines_change_no_pixel_that_does_not_touch_an_edge(seed: int) -> None:
    blur_hw = cv2.GaussianBlur(np.random.default_rng(seed).random((120, 150)), (0, 0), 6)
    far, points, exact = changed(blur_hw > np.median(blur_hw), 1)
    assert far < 1.5  # the next pixel, or that across a corner
    assert points < exact / 3


@pytest.mark.parametrize("seed", range(40))
def test_simplified_outlines_of_tiny_areas_are_areas(seed: int) -> None:
    inside_hw = noise(seed)
    exact = [*outlines(inside_hw)]
    simple = [*outlines(inside_hw, 1)]
    assert len(simple) == len(exact)
    assert all(len(ring_n2) >= 3 for ring_n2 in simple)


@pytest.mark.parametrize("seed", range(10))
def test_brush_strokes_give_the_pixels_back(seed: int) -> None:
    inside_hw = noise(seed)
    inside_hw = inside_hw if seed else np.ones((200, 200), np.bool_)  # longer than 16 bits hold
    value_n = unpack(pack(inside_hw), 4 * inside_hw.size)
    assert np.array_equal(value_n.reshape(*inside_hw.shape, 4)[..., 3] > 0, inside_hw)
