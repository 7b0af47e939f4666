"""Change a training crop beyond scale, mirror and crop. The settings are `data.augment`.

Everything is a function of the pixels and of random numbers that are drawn before. They come from
a stream of their own, so that none of these settings moves a crop, and none changes another.

The order: colours, blur and JPEG noise, on the pixels of the image alone. Then turns and the
vertical mirror, then the rotation, and last the rectangle that is erased. Labels only move. Pixels
that a rotation brings in from outside of the image are void, and so is the erased rectangle: the
network is not asked for what it cannot see.

Dimensions: h rows, w columns, c channels.
"""

import math
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from reconet.recipes.schema import Augment
from reconet.types import IGNORE, MEAN_COLOUR, Image, Label

HALF = 0.5  # of the images are blurred, get JPEG noise, or lose a rectangle
LONGEST = 2.0  # sides of an erased rectangle: the longer one over the shorter one
QUARTER_TURNS = {
    1: cv2.ROTATE_90_COUNTERCLOCKWISE,
    2: cv2.ROTATE_180,
    3: cv2.ROTATE_90_CLOCKWISE,
}
LEAST_BLUR = 0.1  # pixels: a smaller sigma changes nothing


class Chances(NamedTuple):
    """The random numbers of one crop, each between 0 and 1."""

    brightness: float
    contrast: float
    saturation: float
    hue: float
    has_blur: float
    blur: float
    has_jpeg: float
    jpeg: float
    turn: float
    flip: float
    angle: float
    has_hole: float
    area: float
    shape: float
    top: float
    left: float


def draw_chances(rng: np.random.Generator) -> Chances:
    """Draw the numbers of one crop. The generator itself stays where it is."""
    apart = np.random.Generator(rng.bit_generator.jumped())  # type: ignore[attr-defined]
    return Chances(*apart.random(len(Chances._fields)).tolist())


def size_before(crop: tuple[int, int], settings: Augment, chance: Chances) -> tuple[int, int]:
    """Return the height and width to cut out, so that a turned and rotated crop is still full."""
    angle = _angle(settings, chance)
    sine, cosine = abs(math.sin(angle)), abs(math.cos(angle))
    height, width = crop
    if angle:
        height, width = (
            math.ceil(crop[0] * cosine + crop[1] * sine) + 2,
            math.ceil(crop[1] * cosine + crop[0] * sine) + 2,
        )
    return (width, height) if _quarter_turns(settings, chance) % 2 else (height, width)


def change_crop(
    image_hwc: Image,
    label_hw: Label,
    crop: tuple[int, int],
    settings: Augment,
    chance: Chances,
) -> tuple[Image, Label]:
    """Return image and labels of a changed crop, at most as large as `crop`."""
    image_hwc = change_colours(image_hwc, settings, chance)
    image_hwc = add_blur(image_hwc, settings, chance)
    image_hwc = add_jpeg_noise(image_hwc, settings, chance)
    turns = _quarter_turns(settings, chance)
    upside_down = settings.flip_vertical and chance.flip < HALF
    image_hwc = turn(image_hwc, turns, upside_down)
    label_hw = turn(label_hw, turns, upside_down)
    angle = _angle(settings, chance)
    if angle:
        image_hwc, label_hw = rotate(image_hwc, label_hw, angle, crop)
    if settings.erase and chance.has_hole < HALF:
        erase(image_hwc, label_hw, settings, chance)
    return image_hwc, label_hw


def change_colours(image_hwc: Image, settings: Augment, chance: Chances) -> Image:
    """Change brightness, contrast, saturation and hue, as one matrix on all pixels."""
    if not (settings.brightness or settings.contrast or settings.saturation or settings.hue):
        return image_hwc
    matrix_34 = colour_matrix(float(np.mean(cv2.mean(image_hwc)[:3])), settings, chance)
    return np.asarray(cv2.transform(image_hwc, matrix_34), np.uint8)


def colour_matrix(mean: float, settings: Augment, chance: Chances) -> NDArray[np.float64]:
    """Return the matrix (3, 4) from (red, green, blue, 1) to the new colour.

    Hue turns colours around the axis of greys, and saturation moves them from it or to it. Both
    keep the mean of the three channels. Contrast moves colours from the mean of the image or to
    it, and brightness is a factor on all.
    """
    brightness, contrast, saturation = (
        1 + getattr(settings, name) * (2 * getattr(chance, name) - 1)
        for name in ("brightness", "contrast", "saturation")
    )
    grey_33 = np.full((3, 3), 1 / 3)
    turn = 2 * math.pi * settings.hue * (2 * chance.hue - 1)
    axis = 1 / math.sqrt(3)
    cross_33 = axis * np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    # Rodrigues' formula for a rotation around the axis of greys
    hue_33 = math.cos(turn) * np.eye(3) + math.sin(turn) * cross_33 + (1 - math.cos(turn)) * grey_33
    matrix_33 = brightness * contrast * (saturation * hue_33 + (1 - saturation) * grey_33)
    offset_31 = np.full((3, 1), brightness * (1 - contrast) * mean)
    return np.hstack([matrix_33, offset_31])


def add_blur(image_hwc: Image, settings: Augment, chance: Chances) -> Image:
    sigma = settings.blur * chance.blur
    if chance.has_blur >= HALF or sigma < LEAST_BLUR:
        return image_hwc
    return np.asarray(cv2.GaussianBlur(image_hwc, (0, 0), sigma), np.uint8)


def add_jpeg_noise(image_hwc: Image, settings: Augment, chance: Chances) -> Image:
    """Write an image as JPEG in memory, and read it again."""
    if settings.jpeg is None or chance.has_jpeg >= HALF:
        return image_hwc
    quality = settings.jpeg + int(chance.jpeg * (101 - settings.jpeg))
    bgr_hwc = cv2.cvtColor(image_hwc, cv2.COLOR_RGB2BGR)
    written = cv2.imencode(".jpg", bgr_hwc, [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
    read_hwc = cv2.imdecode(written, cv2.IMREAD_COLOR)
    assert read_hwc is not None
    return np.asarray(cv2.cvtColor(read_hwc, cv2.COLOR_BGR2RGB), np.uint8)


def turn(pixels: NDArray[np.uint8], turns: int, upside_down: bool) -> NDArray[np.uint8]:
    """Turn anticlockwise by so many times 90 degrees, then mirror vertically. Works on labels too.

    cv2 does this several times faster than numpy.
    """
    if turns:
        pixels = np.asarray(cv2.rotate(pixels, QUARTER_TURNS[turns]), np.uint8)
    return np.asarray(cv2.flip(pixels, 0), np.uint8) if upside_down else pixels


def rotate(
    image_hwc: Image, label_hw: Label, angle: float, crop: tuple[int, int]
) -> tuple[Image, Label]:
    """Turn around the centre, anticlockwise by `angle` in radians, and cut out the middle.

    Images are bilinear, labels take the nearest pixel. What lies outside is padding and void.
    """
    height, width = crop
    sine, cosine = math.sin(angle), math.cos(angle)
    middle_y, middle_x = (height - 1) / 2, (width - 1) / 2
    source_y, source_x = (label_hw.shape[0] - 1) / 2, (label_hw.shape[1] - 1) / 2
    matrix_23 = np.array(
        [
            [cosine, -sine, source_x - cosine * middle_x + sine * middle_y],
            [sine, cosine, source_y - sine * middle_x - cosine * middle_y],
        ]
    )
    turned_hwc = cv2.warpAffine(
        image_hwc,
        matrix_23,
        (width, height),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderValue=MEAN_COLOUR,
    )
    turned_hw = cv2.warpAffine(
        label_hw,
        matrix_23,
        (width, height),
        flags=cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP,
        borderValue=IGNORE,
    )
    return np.asarray(turned_hwc, np.uint8), np.asarray(turned_hw, np.uint8)


def erase(image_hwc: Image, label_hw: Label, settings: Augment, chance: Chances) -> None:
    """Cover a rectangle by padding, in place. It has no labels any more."""
    height, width = label_hw.shape
    area = settings.erase * chance.area * height * width
    shape = LONGEST ** (2 * chance.shape - 1)  # height over width
    rows = min(height, round(math.sqrt(area * shape)))
    columns = min(width, round(math.sqrt(area / shape)))
    top, left = int(chance.top * (height - rows + 1)), int(chance.left * (width - columns + 1))
    image_hwc[top : top + rows, left : left + columns] = MEAN_COLOUR
    label_hw[top : top + rows, left : left + columns] = IGNORE


def _angle(settings: Augment, chance: Chances) -> float:
    return math.radians(settings.rotation * (2 * chance.angle - 1))


def _quarter_turns(settings: Augment, chance: Chances) -> int:
    return int(4 * chance.turn) if settings.turn else 0
