import numpy as np

from reconet.data.images.draw import GAP, VOID_COLOUR, Tile, colourise, fit, overlay, sheet
from reconet.types import IGNORE

PALETTE = ((0, 0, 0), (200, 0, 0), (0, 0, 200))
LABEL_HW = np.array([[0, 1, 2], [1, 2, IGNORE]], np.uint8)


def test_colourise_gives_each_label_its_colour_and_the_rest_the_void_one() -> None:
    image_hwc = colourise(LABEL_HW, PALETTE)
    assert image_hwc.dtype == np.uint8
    for y, x in np.ndindex(2, 3):
        label = LABEL_HW[y, x]
        assert tuple(image_hwc[y, x]) == (VOID_COLOUR if label == IGNORE else PALETTE[label])


def test_overlay_mixes_by_alpha_and_leaves_void_and_black_classes() -> None:
    image_hwc = np.full((2, 3, 3), 100, np.uint8)
    mixed_hwc = overlay(image_hwc, LABEL_HW, PALETTE, alpha=0.25)
    assert tuple(mixed_hwc[0, 1]) == (125, 75, 75)  # 0.75 * 100 + 0.25 * (200, 0, 0)
    assert tuple(mixed_hwc[1, 2]) == (100, 100, 100), "void"
    assert tuple(mixed_hwc[0, 0]) == (100, 100, 100), "background, which is black"
    assert (image_hwc == 100).all()


def test_overlay_of_alpha_0_and_1_are_the_image_and_the_colours() -> None:
    image_hwc = np.random.default_rng(0).integers(0, 256, (2, 3, 3), dtype=np.uint8)
    assert np.array_equal(overlay(image_hwc, LABEL_HW, PALETTE, alpha=0), image_hwc)
    tinted_hw = (LABEL_HW != IGNORE) & (LABEL_HW != 0)
    full_hwc = overlay(image_hwc, LABEL_HW, PALETTE, alpha=1)
    assert np.array_equal(full_hwc[tinted_hw], colourise(LABEL_HW, PALETTE)[tinted_hw])


def test_fit_keeps_the_proportions_and_one_pixel_at_least() -> None:
    assert fit(np.zeros((50, 100, 3), np.uint8), 40, 40).shape == (20, 40, 3)
    assert fit(np.zeros((5, 10, 3), np.uint8), 40, 40).shape == (20, 40, 3)
    assert fit(np.zeros((1, 1000, 3), np.uint8), 40, 40).shape == (1, 40, 3)


def test_a_sheet_shows_every_image_and_every_colour_of_the_legend() -> None:
    red_hwc, green_hwc = (np.full((30, 40, 3), c, np.uint8) for c in ((250, 1, 1), (1, 250, 1)))
    names = [("a class with a stränge name é", (1, 1, 250)), ("b", (250, 1, 250))]
    page_hwc = sheet([Tile("one", [red_hwc]), Tile("two", [green_hwc]), Tile("none", [])], names)
    for colour, pixels in (((250, 1, 1), 1200), ((1, 250, 1), 1200)):
        assert (page_hwc == colour).all(2).sum() == pixels
    for _, colour in names:
        assert (page_hwc == colour).all(2).sum() > 50
    assert page_hwc.shape[1] > 2 * (40 + GAP)


def test_an_empty_sheet_is_still_a_image() -> None:
    assert sheet([], []).ndim == 3
