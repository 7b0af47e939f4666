"""Paint the things of a scene. Nothing here knows the class of a thing.

A canvas holds two images: the colours, and the material of each pixel. generate.py decides the
class of a material from facts about the whole image. So the look of a thing cannot tell its
class: there is one painter for a disc, and none for a sun or a moon.

Positions are fractions of the image (0..1, y downwards). Sizes are in units of its shorter side.
So a layout is the same at any resolution, and a disc stays round.
"""

from dataclasses import dataclass
from enum import IntEnum

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

Rgb = NDArray[np.float64]  # RGB, 0..255
Points = NDArray[np.float64]  # (n, 2) or (2,): x, then y
Rng = np.random.Generator

SUBPIXEL_BITS = 4  # cv2 takes fixed-point corners; whole pixels would distort small things


class Material(IntEnum):
    """What a pixel is made of."""

    SKY = 0
    DISC = 1
    MOUNTAIN = 2
    HOUSE = 3
    TREE = 4
    GROUND = 5
    STRIP = 6
    VEHICLE = 7
    FENCE = 8
    LUMP = 9
    BANK = 10  # the seam between strip and ground, which belongs to neither


class Canvas:
    """Colours and materials of one image, painted from back to front."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.height, self.width = size
        self.unit = min(size)
        self.image_hwc = np.zeros((*size, 3), np.uint8)
        self.material_hw = np.zeros(size, np.uint8)
        self.row_h = (np.arange(self.height) + 0.5) / self.height

    def at(self, x: ArrayLike, y: ArrayLike) -> Points:
        """Convert fractions of the image to pixels: one point, or a line of them."""
        return np.array([np.multiply(x, self.width), np.multiply(y, self.height)]).T - 0.5

    def polygon(self, points_n2: Points, colour: Rgb, material: Material) -> None:
        """Fill a polygon given in pixels. Its rim is smooth in colour, but not in material."""
        fixed_n2 = np.rint(points_n2 * 2**SUBPIXEL_BITS).astype(np.int32)
        rgb_3 = colour.tolist()
        cv2.fillPoly(self.image_hwc, [fixed_n2], rgb_3, cv2.LINE_AA, SUBPIXEL_BITS)
        cv2.fillPoly(self.material_hw, [fixed_n2], [material], cv2.LINE_8, SUBPIXEL_BITS)

    def ellipse(self, centre: Points, axes: ArrayLike, colour: Rgb, material: Material) -> None:
        self.polygon(centre + np.multiply(axes, CIRCLE), colour, material)

    def rows(self, points_n2: Points, colour_h3: Rgb, material: Material) -> None:
        """Fill a polygon with one colour per row of the image."""
        fixed_n2 = np.rint(points_n2 * 2**SUBPIXEL_BITS).astype(np.int32)
        mask_hw = np.zeros_like(self.material_hw)
        for target_hw, value in ((mask_hw, 1), (self.material_hw, material)):
            cv2.fillPoly(target_hw, [fixed_n2], [value], cv2.LINE_8, SUBPIXEL_BITS)
        colour_h1c = colour_h3[:, None].astype(np.uint8)
        colour_hwc = cv2.resize(colour_h1c, mask_hw.shape[::-1], interpolation=cv2.INTER_NEAREST)
        cv2.copyTo(colour_hwc, mask_hw, self.image_hwc)


@dataclass(frozen=True, kw_only=True)
class Air:
    """The effect of distance and hour on colours: haze far away, light of the hour nearby."""

    horizon: float
    haze: Rgb
    light: Rgb  # factor per channel on the nearest things; 1 means unchanged

    def tone(self, colour: Rgb, y: ArrayLike) -> Rgb:
        """Return the colour of a thing that stands at height `y` of the image (one or many).

        The light of the hour increases gradually, so that pixels near the sky do not tell it.
        """
        near = np.maximum(np.asarray(y)[..., None] - self.horizon, 0) / (1 - self.horizon)
        lit = colour * (1 + (self.light - 1) * near)
        toned: Rgb = np.minimum(lit + (self.haze - lit) * 0.5 * (1 - near) ** 3, 255)
        return toned


def rgb(*colours: tuple[int, int, int]) -> Rgb:
    return np.array(colours, np.float64)


DISC = rgb((254, 242, 205), (252, 222, 168), (240, 240, 234))
ROCKFACE = rgb((104, 114, 140), (140, 124, 126), (92, 108, 116))
WALL = rgb((230, 216, 186), (194, 116, 88), (220, 178, 112), (184, 196, 204))
ROOF = rgb((162, 78, 56), (82, 80, 94), (122, 90, 70))
LEAF = rgb((52, 96, 46), (100, 126, 48), (34, 78, 62), (132, 112, 42))
WOOD = rgb((104, 76, 52), (146, 104, 66), (222, 214, 198))
PALE = rgb((226, 220, 208), (172, 168, 162), (206, 190, 166))
FLOWER = rgb((236, 222, 120), (232, 232, 226), (204, 110, 116), (78, 84, 52), (124, 116, 100))
PAINT = rgb((200, 58, 48), (234, 230, 220), (48, 90, 164), (230, 178, 56), (64, 128, 102))
BARK, SHADE, WET = rgb((92, 70, 54), (62, 74, 46), (62, 70, 80))
BIRD, LAMPLIGHT = rgb((70, 70, 84), (255, 214, 112))

ANGLE = np.linspace(0, 2 * np.pi, 28, endpoint=False)
CIRCLE = np.stack([np.cos(ANGLE), np.sin(ANGLE)], axis=1)
BOX = np.array([(-0.5, 0), (-0.5, -1), (0.5, -1), (0.5, 0)])
WINGS = np.array(
    [(-1, -0.4), (-0.45, -0.6), (0, 0), (0.5, -0.6), (1, -0.3), (0.45, -0.35), (0, 0.4)]
)
TRUNK = np.array([(-0.05, 0), (-0.04, -0.5), (0.04, -0.5), (0.05, 0)])
POST = np.array([(-0.011, 0), (-0.011, -0.12), (0, -0.13), (0.011, -0.12), (0.011, 0)])
BODY = np.array([(-0.48, -0.21), (-0.4, -0.01), (0.36, -0.01), (0.47, -0.09), (0.5, -0.23)])
TRIM = np.array([(-0.43, -0.09), (-0.4, -0.01), (0.36, -0.01), (0.45, -0.09)])
CABIN = np.array([(-0.28, -0.2), (-0.22, -0.4), (0.1, -0.4), (0.22, -0.2)])
PANE = np.array([(-0.2, -0.23), (-0.17, -0.36), (0.07, -0.36), (0.14, -0.23)])


def mixed(rng: Rng, anchors_n3: Rgb) -> Rgb:
    """Return a random colour between the given ones, mostly near one of them."""
    weight_n = rng.exponential(size=len(anchors_n3)) ** 2
    colour: Rgb = weight_n @ anchors_n3 / weight_n.sum()
    return colour


def disc(canvas: Canvas, rng: Rng) -> None:
    """Paint a pale round light, high in the sky, in a soft glow."""
    centre = canvas.at(rng.uniform(0.1, 0.9), rng.uniform(0.1, 0.19))
    radius = canvas.unit * rng.uniform(0.06, 0.085)
    colour = mixed(rng, DISC)
    reach = 2.4 * radius
    (left, top), (right, bottom) = np.maximum(centre - reach, 0), centre + reach
    box_hwc = canvas.image_hwc[int(top) : int(bottom), int(left) : int(right)]
    y, x = np.ogrid[: box_hwc.shape[0], : box_hwc.shape[1]]
    distance_hw = np.hypot(x + int(left) - centre[0], y + int(top) - centre[1])
    glow_hw1 = 0.8 * np.clip(1 - distance_hw / reach, 0, 1)[..., None] ** 2
    box_hwc[:] = box_hwc + (colour - box_hwc) * glow_hw1
    canvas.ellipse(centre, radius, colour * 0.97, Material.DISC)
    canvas.ellipse(centre, radius * 0.85, colour, Material.DISC)


def bird(canvas: Canvas, rng: Rng) -> None:
    """Paint a far bird. It is clutter, and labelled as sky."""
    size = canvas.unit * rng.uniform(0.012, 0.024)
    centre = canvas.at(rng.uniform(0.05, 0.95), rng.uniform(0.04, 0.28))
    canvas.polygon(centre + size * WINGS, BIRD, Material.SKY)


def mountain(canvas: Canvas, rng: Rng, air: Air, x: float) -> None:
    """Paint a peak behind the horizon with a lit and a shaded side and a pale top."""
    top, foot = air.horizon - rng.uniform(0.1, 0.2), air.horizon + 0.03
    rock = air.tone(mixed(rng, ROCKFACE), foot)
    ridge = np.linspace((x, top), (x, foot), 6)
    ridge[1:, 0] += rng.uniform(-0.018, 0.018, 5)
    for sign, shade in ((-1, 1.06), (1, 0.8)):
        slope = np.linspace((x, top), (x + sign * rng.uniform(0.13, 0.24), foot), 5)
        slope[1:-1] += rng.uniform(-0.012, 0.012, (3, 2))
        for part, pale in (
            (np.concatenate([slope, ridge[::-1]]), 0),
            (np.concatenate([slope[:2], ridge[1::-1]]), 70),
        ):
            tint = np.minimum(rock * shade + pale, 250)
            canvas.polygon(canvas.at(*part.T), tint, Material.MOUNTAIN)


def house(canvas: Canvas, rng: Rng, air: Air, x: float, *, night: bool) -> None:
    """Paint a gabled house or a flat-roofed block. Most of its windows are lit at night."""
    y, block = air.horizon + rng.uniform(0.02, 0.045), rng.random() < 0.4
    wide = rng.uniform(0.085, 0.12) if block else rng.uniform(0.1, 0.15)
    high = rng.uniform(0.11, 0.15) if block else rng.uniform(0.06, 0.085)
    peak, flat = (0.012, 1.0) if block else (rng.uniform(0.035, 0.055), rng.uniform(0, 0.6))
    wall, roof = air.tone(mixed(rng, WALL), y), air.tone(mixed(rng, ROOF), y)
    base, eaves, rows = canvas.at(x, y), 0.5 * wide + 0.008, 4 if block else 2
    canvas.polygon(base + canvas.unit * BOX * (wide, high), wall, Material.HOUSE)
    slates = np.array([(-eaves, 0), (-eaves * flat, -peak), (eaves * flat, -peak), (eaves, 0)])
    canvas.polygon(base + canvas.unit * (slates - (0, high)), roof, Material.HOUSE)
    lamp_r3 = rng.random((rows, 3)) < 0.75
    for (row, column), lamp in np.ndenumerate(lamp_r3):
        sill = np.array([(column - 1) * 0.27 * wide, -high * (row + 0.25) / rows])
        glass = LAMPLIGHT if lamp and night else wall * 0.45
        canvas.polygon(base + canvas.unit * (sill + BOX * (0.016, 0.019)), glass, Material.HOUSE)


def tree(canvas: Canvas, rng: Rng, air: Air, x: float, y: float, scale: float) -> None:
    """Paint a fir or a round tree."""
    base, size = canvas.at(x, y), canvas.unit * scale * rng.uniform(0.18, 0.27)
    leaf = air.tone(mixed(rng, LEAF), y)
    canvas.polygon(base + size * TRUNK, air.tone(BARK, y), Material.TREE)
    if rng.random() < 0.5:
        for tier in range(3):
            low, half = 0.18 + 0.24 * tier, 0.3 - 0.07 * tier
            fan = np.array([(-half, -low), (0, -low - 0.42), (half, -low)])
            canvas.polygon(base + size * fan, leaf * (0.85 + 0.12 * tier), Material.TREE)
        return
    for step, (dx, dy, radius) in enumerate(rng.random((6, 3))):
        puff = base + size * np.array([0.4 * dx - 0.2, -0.5 - 0.2 * dy - 0.02 * step])
        canvas.ellipse(
            puff, size * (0.16 + 0.08 * radius), leaf * (0.8 + 0.07 * step), Material.TREE
        )


def vehicle(canvas: Canvas, rng: Rng, air: Air, x: float, y: float, scale: float) -> None:
    """Paint a low body with a cabin, which may be a car or a boat."""
    length = canvas.unit * scale * rng.uniform(0.2, 0.29)
    turned = length * np.array([1 if rng.random() < 0.5 else -1, 1])
    base = canvas.at(x, y)
    coat = air.tone(PAINT[rng.integers(len(PAINT))] * rng.uniform(0.85, 1.1), y)
    canvas.ellipse(base, (0.48 * length, 0.05 * length), air.tone(WET, y), Material.STRIP)
    canvas.polygon(base + turned * CABIN, np.minimum(coat * 0.86 + 30, 250), Material.VEHICLE)
    canvas.polygon(base + turned * PANE, coat * 0.35 + 25, Material.VEHICLE)
    canvas.polygon(base + turned * BODY, coat, Material.VEHICLE)
    canvas.polygon(base + turned * TRIM, coat * 0.6, Material.VEHICLE)


def lump(canvas: Canvas, rng: Rng, air: Air, x: float, y: float, scale: float) -> None:
    """Paint a pale rounded heap, wool or stone, with a smaller, darker one at its end."""
    base, size = canvas.at(x, y), canvas.unit * scale * rng.uniform(0.055, 0.08)
    pale, side = air.tone(mixed(rng, PALE), y), 1 if rng.random() < 0.5 else -1
    canvas.ellipse(base, (size, 0.16 * size), air.tone(SHADE, y), Material.GROUND)
    knob = base + size * np.array([side * 0.85, -0.62])
    canvas.ellipse(knob, (0.24 * size, 0.2 * size), pale * 0.5, Material.LUMP)
    for step, (dx, dy, wide, high) in enumerate(rng.random((4, 4))):
        centre = base + size * np.array([0.6 * dx - 0.3, -0.4 - 0.08 * dy - 0.09 * step])
        axes = size * (1 - 0.13 * step) * np.array([0.55 + 0.15 * wide, 0.4 + 0.1 * high])
        shade = np.minimum(pale * (0.7 + 0.12 * step), 250)
        canvas.ellipse(centre, axes, shade, Material.LUMP)


def fence(canvas: Canvas, rng: Rng, air: Air) -> None:
    """Paint posts and two rails along a part of the lower edge."""
    span, tilt = rng.uniform(0.45, 0.8), rng.uniform(-0.012, 0.012)
    left = rng.uniform(-0.1, 1.1 - span)
    wood = air.tone(WOOD[rng.integers(len(WOOD))] * rng.uniform(0.85, 1.1), 1.0)
    for y in (0.895, 0.945):
        rail = canvas.at([left, left + span], [y - tilt, y + tilt])
        rail = np.concatenate([rail, np.add(rail[::-1], (0, 0.018 * canvas.unit))])
        canvas.polygon(rail, wood, Material.FENCE)
    for x, shade in zip(
        left + span * np.linspace(0, 1, 7), rng.uniform(0.75, 0.95, 7), strict=True
    ):
        canvas.polygon(canvas.at(x, 0.995) + canvas.unit * POST, wood * shade, Material.FENCE)
