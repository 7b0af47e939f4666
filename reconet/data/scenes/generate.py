"""Generate scenes: images in which context decides what a thing is.

Three facts about an image are drawn first, each by a fair coin and independent of the others:
is it night, is it in town, is there a pasture? They decide what things are *called*:

    disc      sun  | moon       by the light on the foreground, and by lit windows
    strip     road | river      by what stands on the horizon: houses or mountains
    vehicle   car  | boat       by what the strip under it is, hence by the horizon
    lump      rock | sheep      by a fence along the lower edge

They do not decide how these things look. A scene is painted in materials, such as `disc`, and a
table turns materials into classes at the very end.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from reconet.data.scenes import paint
from reconet.data.scenes.paint import Air, Canvas, Material, Rgb, Rng
from reconet.types import IGNORE, Image, Label, Palette

Painter = Callable[[Canvas, Rng, Air, float, float, float], None]

ACROSS = np.linspace(-0.02, 1.02, 33)  # a little beyond both sides, so that rounding leaves no gap

CLASSES: tuple[str, ...] = (
    *("sky", "sun", "moon", "mountain", "house", "tree", "ground"),
    *("road", "river", "car", "boat", "fence", "rock", "sheep"),
)
PALETTE: Palette = (
    *((135, 190, 235), (255, 200, 0), (235, 235, 255), (165, 125, 100), (200, 80, 60)),
    *((20, 105, 45), (150, 195, 95), (95, 95, 105), (25, 85, 200), (225, 30, 120)),
    *((255, 130, 20), (120, 65, 15), (145, 70, 175), (250, 225, 185)),
)


class SceneFacts(NamedTuple):
    """Facts about a whole image that decide the classes in it."""

    night: bool
    town: bool
    pasture: bool


@dataclass(frozen=True, kw_only=True)
class Strip:
    """A band across the image: its middle is a parabola, its width changes along it."""

    middle: float
    slope: float
    bend: float
    half: float
    taper: float

    def edge(self, x: ArrayLike, side: float) -> NDArray[np.float64]:
        """Return the height of the upper (side -1), middle (0) or lower (+1) line at `x`."""
        t = np.asarray(x) - 0.5
        half = self.half * (1 + self.taper * t)
        return np.asarray(self.middle + self.slope * t + self.bend * t * t + side * half)


def scene(seed: int, index: int, size: tuple[int, int] = (160, 160)) -> tuple[Image, Label]:
    """Draw image `index` of the endless series `seed`, at `size` (height, width).

    The result depends on the arguments alone. Labels are 0..len(CLASSES) - 1, or IGNORE.
    """
    return scene_with(facts_of(seed, index), seed, index, size)


def facts_of(seed: int, index: int) -> SceneFacts:
    """Draw the facts of an image."""
    night, town, pasture = stream(seed, index, "facts").random(3) < 0.5
    return SceneFacts(bool(night), bool(town), bool(pasture))


def scene_with(
    facts: SceneFacts, seed: int, index: int, size: tuple[int, int]
) -> tuple[Image, Label]:
    """Draw a scene with other facts. Only the evidence for them changes."""
    canvas = Canvas(size)
    paint_scene(canvas, seed, index, facts)
    image_hwc = develop(canvas, stream(seed, index, "texture"), stream(seed, index, "sensor"))
    return image_hwc, label_of_material(facts)[canvas.material_hw]


PARTS = ("facts", "air", "sky", "skyline", "land", "things", "fence", "texture", "sensor")


def stream(seed: int, index: int, part: str) -> Rng:
    """Return the random numbers of one part of one image.

    Each part has its own stream, so that a fence, painted or not, cannot move a cloud.
    """
    if seed < 0 or index < 0:
        raise ValueError(f"a scene needs a seed and an index from 0 up, got {seed} and {index}.")
    counter = [0, 0, 0, PARTS.index(part)]
    return np.random.Generator(np.random.Philox(counter=counter, key=[seed, index]))


def label_of_material(facts: SceneFacts) -> NDArray[np.uint8]:
    """Return the table from materials to labels. Only here do facts decide names."""
    of_material = {
        Material.SKY: "sky",
        Material.DISC: "moon" if facts.night else "sun",
        Material.MOUNTAIN: "mountain",
        Material.HOUSE: "house",
        Material.TREE: "tree",
        Material.GROUND: "ground",
        Material.STRIP: "road" if facts.town else "river",
        Material.VEHICLE: "car" if facts.town else "boat",
        Material.FENCE: "fence",
        Material.LUMP: "sheep" if facts.pasture else "rock",
    }
    table_m = np.full(len(Material), IGNORE, np.uint8)
    for material, name in of_material.items():
        table_m[material] = CLASSES.index(name)
    return table_m


def paint_scene(canvas: Canvas, seed: int, index: int, facts: SceneFacts) -> None:
    """Paint everything, from the sky to the fence."""
    rng = stream(seed, index, "air")
    horizon = rng.uniform(0.38, 0.45)
    top, haze = paint.mixed(rng, SKY_TOP), paint.mixed(rng, SKY_LOW)
    by_day, by_night = rng.uniform(DAY[0], DAY[1]), rng.uniform(NIGHT[0], NIGHT[1])
    air = Air(horizon=horizon, haze=haze, light=by_night if facts.night else by_day)

    sky(canvas, stream(seed, index, "sky"), top, air)
    if not facts.town:
        mountains(canvas, stream(seed, index, "skyline"), air)
    strip = land(canvas, stream(seed, index, "land"), air)
    if facts.town:
        houses(canvas, stream(seed, index, "skyline"), air, night=facts.night)
    things(canvas, stream(seed, index, "things"), air, strip)
    if facts.pasture:
        paint.fence(canvas, stream(seed, index, "fence"), air)


# The same skies by day and by night, so that the sky does not tell the hour.
SKY_TOP = paint.rgb((56, 86, 160), (98, 154, 220), (118, 88, 152), (126, 136, 162))
SKY_LOW = paint.rgb((252, 202, 152), (206, 226, 240), (238, 176, 178), (244, 230, 206))
DAY = np.array([(0.98, 0.98, 0.86), (1.16, 1.12, 0.98)])  # range of the factors on R, G, B
NIGHT = np.array([(0.18, 0.22, 0.4), (0.34, 0.38, 0.58)])
GRASS = paint.rgb((112, 150, 64), (164, 156, 80), (84, 132, 80), (172, 146, 100))
GREY_BLUE = paint.rgb((112, 124, 138), (136, 142, 152), (94, 112, 132))
GRAVEL = paint.rgb((182, 168, 142))[0]


def sky(canvas: Canvas, rng: Rng, top: Rgb, air: Air) -> None:
    """Paint a vertical blend of two colours, mostly a disc, and some birds.

    Clouds come with the texture.
    """
    rise_h1 = np.clip(canvas.row_h / air.horizon, 0, 1)[:, None] ** 1.3
    canvas.image_hwc[:] = np.rint(top + (air.haze - top) * rise_h1)[:, None]
    if rng.random() < 0.9:
        paint.disc(canvas, rng)
    for _ in range(rng.integers(4)):
        paint.bird(canvas, rng)


def mountains(canvas: Canvas, rng: Rng, air: Air) -> None:
    """Paint a short range somewhere along the horizon."""
    middle = rng.uniform(0.05, 0.95)
    for x in middle + rng.uniform(-0.17, 0.17, rng.integers(1, 4)):
        paint.mountain(canvas, rng, air, min(max(x, 0.05), 0.95))  # never out of the image


def houses(canvas: Canvas, rng: Rng, air: Air, *, night: bool) -> None:
    """Paint a few houses side by side, somewhere along the horizon."""
    count = int(rng.integers(2, 5))
    first, step = rng.uniform(0.03, 0.97 - 0.13 * (count - 1)), rng.uniform(0.12, 0.15)
    for number in range(count):
        paint.house(canvas, rng, air, first + step * number, night=night)


def land(canvas: Canvas, rng: Rng, air: Air) -> Strip:
    """Paint the ground with patches and specks of other growth, and the strip across it."""
    height, waves, phase = rng.uniform((0.004, 0.5, 0), (0.012, 1.5, 2 * np.pi))
    ridge_n = air.horizon + height * np.sin(2 * np.pi * waves * ACROSS + phase)
    grass = paint.mixed(rng, GRASS)
    outline = np.concatenate([canvas.at(ACROSS, ridge_n), canvas.at((1.02, -0.02), (1.02, 1.02))])
    canvas.rows(outline, air.tone(grass, canvas.row_h), Material.GROUND)
    for x, y, wide, high in rng.uniform(
        (0, air.horizon + 0.06, 0.3, 0.04), (1, 1, 0.7, 0.1), (6, 4)
    ):
        reach = canvas.unit * (y - air.horizon)
        growth = air.tone(0.6 * grass + 0.4 * paint.mixed(rng, GRASS), y)
        canvas.ellipse(canvas.at(x, y), (reach * wide, reach * high), growth, Material.GROUND)
    speck_n2 = rng.uniform((0, air.horizon + 0.02), (1, 1), (14, 2))
    colour_n3 = air.tone(paint.FLOWER[rng.integers(len(paint.FLOWER), size=14)], speck_n2[:, 1])
    for (x, y), colour in zip(speck_n2, colour_n3, strict=True):
        size = canvas.unit * (0.003 + 0.012 * (y - air.horizon))
        canvas.ellipse(canvas.at(x, y), size, colour, Material.GROUND)
    return lay_strip(canvas, rng, air)


def lay_strip(canvas: Canvas, rng: Rng, air: Air) -> Strip:
    """Paint a grey-blue strip with pale dashes (lane marks, or glints) and a seam on both sides."""
    middle, slope, bend, half, taper = rng.uniform(
        (air.horizon + 0.17, -0.1, -0.1, 0.05, -0.5), (0.68, 0.1, 0.1, 0.075, 0.5)
    )
    strip = Strip(middle=middle, slope=slope, bend=bend, half=half, taper=taper)
    colour = paint.mixed(rng, GREY_BLUE)
    seam = 0.004 + 1.0 / canvas.height  # at least one pixel, however small the image
    for grow, tint, material in ((seam, GRAVEL, Material.BANK), (0.0, colour, Material.STRIP)):
        band = replace(strip, half=half + grow)
        upper, lower = (canvas.at(ACROSS, band.edge(ACROSS, side)) for side in (-1, 1))
        outline = np.concatenate([upper, lower[::-1]])
        canvas.rows(outline, air.tone(tint, canvas.row_h), material)
    for x in rng.uniform(0, 0.12) + np.arange(8) * 0.13:
        y = strip.edge(x, rng.uniform(-0.12, 0.12))
        axes = canvas.unit * rng.uniform(0.02, 0.032), canvas.unit * rng.uniform(0.003, 0.005)
        canvas.ellipse(canvas.at(x, y), axes, air.tone(colour * 1.3, y), Material.STRIP)
    return strip


def things(canvas: Canvas, rng: Rng, air: Air, strip: Strip) -> None:
    """Paint trees, lumps and vehicles, the farthest first, and larger the nearer they stand."""
    placed: list[tuple[float, float, Painter]] = []
    if rng.random() < 0.93:
        for x, lane in rng.uniform((0.06, -0.3), (0.94, 0.7), (rng.integers(1, 4), 2)):
            placed.append((float(strip.edge(x, lane)), x, paint.vehicle))
    if rng.random() < 0.93:
        for _ in range(rng.integers(3, 7)):
            placed.append((*on_land(rng, air, strip, lowest=0.85), paint.lump))
    for _ in range(rng.integers(2, 6)):
        placed.append((*on_land(rng, air, strip, lowest=0.95), paint.tree))
    for y, x, painter in sorted(placed, key=lambda thing: thing[0]):
        painter(canvas, rng, air, x, y, 0.55 + 1.1 * (y - air.horizon))


def on_land(rng: Rng, air: Air, strip: Strip, *, lowest: float) -> tuple[float, float]:
    """Choose a place (y, x) before the strip, if there is room, or beyond it."""
    x, t, side = rng.random(3)
    far, near = float(strip.edge(x, 1)) + 0.06, lowest
    if side < 0.5 or far > near:
        far, near = air.horizon + 0.03, float(strip.edge(x, -1)) - 0.01
    return far + t * (near - far), x


# How strongly each texture shows on each material: clouds, grain, streaks, blotches.
GAIN = {
    Material.SKY: (0.07, 0.005, 0.0, 0.0),
    Material.DISC: (0.0, 0.01, 0.0, 0.03),
    Material.MOUNTAIN: (0.0, 0.05, 0.02, 0.05),
    Material.HOUSE: (0.0, 0.05, 0.0, 0.02),
    Material.TREE: (0.0, 0.1, 0.0, 0.1),
    Material.GROUND: (0.03, 0.06, 0.03, 0.05),
    Material.STRIP: (0.0, 0.025, 0.07, 0.02),
    Material.VEHICLE: (0.0, 0.02, 0.0, 0.02),
    Material.FENCE: (0.0, 0.06, 0.03, 0.0),
    Material.LUMP: (0.0, 0.06, 0.0, 0.06),
    Material.BANK: (0.0, 0.08, 0.02, 0.02),
}
GAIN_TM = np.zeros((4, 256), np.float32)  # 256: cv2.LUT wants an entry for every byte
GAIN_TM[:, : len(Material)] = np.array([GAIN[material] for material in Material]).T
GRIDS = ((9, 4), (150, 150), (90, 7), (40, 40))  # rows, columns: few columns make level streaks


def develop(canvas: Canvas, texture: Rng, sensor: Rng) -> Image:
    """Add what a camera adds to flat colours: texture, uneven light, a colour cast, noise."""
    size_wh = (canvas.width, canvas.height)
    factor_hw = np.ones((canvas.height, canvas.width), np.float32)
    for grid, gain_m in zip(GRIDS, GAIN_TM, strict=True):
        coarse = texture.uniform(-1.7, 1.7, grid).astype(np.float32)
        fine_hw = cv2.resize(coarse, size_wh, interpolation=cv2.INTER_CUBIC)
        factor_hw += fine_hw * cv2.LUT(canvas.material_hw, gain_m)
    corner_22 = texture.uniform(0.88, 1.1, (2, 2)).astype(np.float32)
    factor_hw *= cv2.resize(corner_22, size_wh, interpolation=cv2.INTER_LINEAR)
    cast = texture.uniform(0.95, 1.05, 3).astype(np.float32)
    image_hwc = canvas.image_hwc * cv2.merge([factor_hw * channel for channel in cast])
    # The sum of two bytes is nearly bell-shaped, and ten times cheaper than a normal variate.
    bytes_2hwc = sensor.integers(0, 256, (2, *image_hwc.shape), np.uint8)
    noise_hwc = cv2.add(bytes_2hwc[0], bytes_2hwc[1], dtype=cv2.CV_32F) - np.float32(255)
    image_hwc += noise_hwc * np.float32(texture.uniform(0.02, 0.06))
    developed_hwc: Image = np.clip(image_hwc, 0, 255).astype(np.uint8)
    return developed_hwc
