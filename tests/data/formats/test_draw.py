"""Regions become pixels: against slow, obvious versions."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from matplotlib.path import Path as Outline
from numpy.typing import NDArray
from PIL import Image

from reconet.data.formats.draw import (
    Drawing,
    Part,
    Polygons,
    Region,
    RowRuns,
    Runs,
    SegmentFile,
    draw,
    ellipse,
    fill_polygon,
    rectangle,
    turned,
)
from reconet.errors import DataError
from reconet.types import IGNORE

HEIGHT, WIDTH = 23, 31


def pixels(region: Region) -> NDArray[np.bool_]:
    drawing = Drawing("a.json", HEIGHT, WIDTH, [Part("x", region, "shapes[0]")], {"x": 1})
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


def test_a_polygon_along_the_edges_of_pixels_gives_exactly_these() -> None:
    inside_hw = pixels(rectangle(3, 4, 9, 11))
    assert inside_hw[4:11, 3:9].all()
    assert inside_hw.sum() == 6 * 7


def test_parts_of_a_polygon_are_a_union_and_lie_partly_beside_the_image() -> None:
    inside_hw = pixels(Polygons([[-9, -9, 5, -9, 5, 5, -9, 5], [3, 3, 40, 3, 40, 40, 3, 40]]))
    expected_hw = np.zeros((HEIGHT, WIDTH), np.bool_)
    expected_hw[:5, :5] = expected_hw[3:, 3:] = True
    assert np.array_equal(inside_hw, expected_hw)


def test_regions_beside_the_image_have_no_pixels() -> None:
    assert not pixels(rectangle(100, 100, 120, 120)).any()
    assert not pixels(RowRuns([0, 4], 50, 50, 2, 2)).any()
    assert pixels(RowRuns([0, 16], -2, -1, 4, 4)).sum() == 2 * 3


def test_an_ellipse_has_its_area_and_a_turned_box_its_own() -> None:
    assert pixels(ellipse(15, 11, 10, 6)).sum() == pytest.approx(np.pi * 60, rel=0.03)
    turned_hw = pixels(turned(rectangle(10, 8, 20, 12), 90, 15, 10))
    assert turned_hw.sum() == 40
    assert turned_hw[5:15, 13:17].all()


@pytest.mark.parametrize(
    "ring", [[0, 0, 1e8, 0, 1, 1], [0, 0, float("nan"), 0, 1, 1], [0, 0, float("inf"), 0, 1, 1]]
)
def test_points_that_are_nowhere_near_are_refused(ring: list[float]) -> None:
    with pytest.raises(DataError, match=r"a.json, shapes\[0\]: its points are not near the image"):
        pixels(Polygons([ring]))


def test_a_polygon_of_millions_of_long_edges_is_refused() -> None:
    ring = np.tile([0.0, 0.0, 5.0, 9000.0], 2000).tolist()
    with pytest.raises(ValueError, match="too many"):
        fill_polygon(ring, 10_000, 10)


def overlapping(smaller_on_top: bool) -> NDArray[np.uint8]:
    parts = [
        Part("small", rectangle(8, 8, 12, 12), "0"),
        Part("large", rectangle(5, 5, 20, 20), "1"),
        Part("ignore", rectangle(10, 10, 11, 11), "2"),
        Part("ignore", rectangle(6, 6, 7, 7), "3", below=True),
    ]
    labels = {"small": 1, "large": 2, "ignore": IGNORE}
    return draw(Drawing("a", HEIGHT, WIDTH, parts, labels, smaller_on_top))


def test_later_or_smaller_regions_lie_on_top_and_crowds_below() -> None:
    later_hw = overlapping(smaller_on_top=False)
    assert (later_hw[9, 9], later_hw[10, 10], later_hw[0, 0]) == (2, IGNORE, 0)
    smaller_hw = overlapping(smaller_on_top=True)
    assert (smaller_hw[9, 9], smaller_hw[10, 10], smaller_hw[6, 6]) == (1, IGNORE, 2)


def memory_of(drawing: Drawing | SegmentFile) -> float:
    """Return the bytes that drawing takes at most, for each pixel."""
    tracemalloc.start()
    draw(drawing)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / (drawing.height * drawing.width)


@pytest.mark.parametrize("smaller_on_top", [False, True])
@pytest.mark.parametrize(
    "region",
    [
        rectangle(0, 0, 999, 999),
        Polygons([[0, 0, 999, 0, 999, 999, 0, 999]] * 5),
        RowRuns([0, 10**6], 999, 999, 1000, 1000),
        Runs([0, 10**6], [1000, 1000]),
        ellipse(500, 500, 499, 499),
    ],
)
def test_memory_does_not_grow_with_the_number_of_regions(
    region: Region, smaller_on_top: bool
) -> None:
    # A file of 4 kB may describe thousands of regions as large as the image.
    drawing = Drawing("a", 1000, 1000, [], {"x": 1}, smaller_on_top)
    many = [Part("x", region, str(number)) for number in range(20)]
    assert memory_of(drawing._replace(parts=many)) < 10


def test_the_numbers_of_segments_take_little_memory(tmp_path: Path) -> None:
    Image.fromarray(np.arange(3 * 10**6, dtype=np.uint8).reshape(1000, 1000, 3)).save(
        tmp_path / "a.png"
    )
    assert memory_of(SegmentFile(tmp_path / "a.png", 1000, 1000, {}, {})) < 12


def test_a_polygon_of_many_crossings_takes_little_memory() -> None:
    teeth = [v for x in range(999) for v in (x, 1, x + 0.5, 998)]
    drawing = Drawing("a", 1000, 1000, [Part("x", Polygons([teeth]), "0")], {"x": 1})
    assert memory_of(drawing) < 50
