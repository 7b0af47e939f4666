"""Curves as inline SVG, drawn here. Pure: numbers in, markup out.

Colours are classes (s0, s1, …) that the page's style knows, so that light and dark both work.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from reconet.report.markup import Markup, tag

WIDTH, HEIGHT = 420, 230
LEFT, RIGHT, TOP, BOTTOM = 50, 14, 12, 36
STYLES = 8  # series that the page's style can tell apart
MOST_TICKS = 6
MOST_POINTS = 300  # of one curve
FEW_POINTS = 40  # up to here each has its dot, and nothing is smoothed

Point = tuple[float, float]


class Series(NamedTuple):
    name: str
    points: Sequence[Point]
    style: int = 0


class Scale(NamedTuple):
    """Values low..high to places start..stop."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.stop - self.start), 2)


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from at or below `low` to at or above `high`: steps of 1, 2 or 5 times 10^n."""
    if not high > low:
        room = abs(low) / 10 or 0.5
        low, high = low - room, high + room
    rough = (high - low) / (MOST_TICKS - 1)
    size = 10.0 ** math.floor(math.log10(rough))
    for factor in (1, 2, 5, 10, 20):
        step = factor * size
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first < MOST_TICKS:
            break
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def tick_text(value: float) -> str:
    """Short enough for the room beside an axis."""
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k" if abs(value) < 1e6 else f"{value / 1e6:g}M"
    if 0 < abs(value) < 0.001:
        power = math.floor(math.log10(abs(value)))
        return f"{value / 10.0**power:.3g}e{power}"
    return f"{value:g}"


def finite(points: Iterable[Point]) -> list[Point]:
    return [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]


def thinned(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """Few enough to draw; of each stretch the lowest and the highest stay, so no spike is lost."""
    if len(points) <= most:
        return list(points)
    stretch = math.ceil(len(points) / (most // 2))
    kept = []
    for start in range(0, len(points), stretch):
        part = points[start : start + stretch]
        ends = {min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])}
        kept += sorted(ends)
    return kept


def smoothed(points: Sequence[Point]) -> list[Point]:
    """The running mean over a thirtieth of the curve, half of it on each side."""
    reach = len(points) // 60
    sums = [0.0]
    for _, y in points:
        sums.append(sums[-1] + y)
    result = []
    for index, (x, _) in enumerate(points):
        near = min(reach, index, len(points) - 1 - index)
        first, last = index - near, index + near + 1
        result.append((x, (sums[last] - sums[first]) / (last - first)))
    return result


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    unit: str = "",
    low: float | None = None,
    about: str = "",
) -> Markup:
    """A figure with a heading, the curves, and a legend if there are several.

    `low` is a value that the axis reaches down to, such as zero.
    """
    shown = [Series(s.name, finite(s.points), s.style) for s in series]
    shown = [s for s in shown if s.points]
    lost = sum(len(s.points) for s in series) - sum(len(s.points) for s in shown)
    parts = [tag("figcaption", tag("h3", title), *([tag("p", about)] if about else []))]
    if shown:
        parts.append(_plot(title, shown, unit, low))
    else:
        parts.append(tag("p", "nothing was logged", class_="note"))
    if len(series) > 1:
        parts.append(legend([(s.name, s.style) for s in shown]))
    if lost:
        parts.append(tag("p", f"{lost} values are no finite numbers.", class_="note"))
    return tag("figure", *parts, class_="chart")


def legend(entries: Iterable[tuple[str, int]]) -> Markup:
    keys = [
        tag("li", tag("span", class_=f"key k{style % STYLES}"), name) for name, style in entries
    ]
    return tag("ul", *keys, class_="legend")


def _plot(title: str, series: Sequence[Series], unit: str, low: float | None) -> Markup:
    xs = [x for s in series for x, _ in s.points]
    ys = [y for s in series for _, y in s.points]
    # Steps go from 0 to where the training ended; the other axis ends at a round number.
    end = max(1.0, *xs)
    along = [x for x in ticks(0, end) if x <= end]
    up = ticks(min(ys) if low is None else min(low, *ys), max(ys))
    x_of = Scale(0, end, LEFT, WIDTH - RIGHT)
    y_of = Scale(up[0], up[-1], HEIGHT - BOTTOM, TOP)
    parts = _grid(along, up, x_of, y_of)
    for one in series:
        parts += _curve(one, x_of, y_of, unit)
    told = "; ".join(_summary(s, unit) for s in series)
    label = f"{title}. {told}."
    return tag(
        "svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label, class_="plot"
    )


def _grid(along: Sequence[float], up: Sequence[float], x_of: Scale, y_of: Scale) -> list[Markup]:
    base, parts = HEIGHT - BOTTOM, []
    for value in up:
        y = y_of(value)
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", tick_text(value), x=LEFT - 7, y=y + 4, text_anchor="end"))
    for value in along:
        x = x_of(value)
        parts.append(tag("line", x1=x, x2=x, y1=base, y2=base + 4, class_="axis"))
        parts.append(tag("text", tick_text(value), x=x, y=base + 17, text_anchor="middle"))
    parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=base, y2=base, class_="axis"))
    parts.append(tag("text", "step", x=WIDTH - RIGHT, y=HEIGHT - 4, text_anchor="end"))
    return parts


def _curve(one: Series, x_of: Scale, y_of: Scale, unit: str) -> list[Markup]:
    few = len(one.points) <= FEW_POINTS
    style = f"s{one.style % STYLES}"
    drawn = thinned(one.points)
    parts = [_line(drawn, x_of, y_of, f"line {style}" if few else f"line faint {style}")]
    if not few:
        parts.append(_line(thinned(smoothed(one.points)), x_of, y_of, f"line {style}"))
    for x, y in drawn:
        told = tag("title", f"{one.name}, step {x:g}: {y:.4g}{unit}")
        dot = "dot" if few else "dot hidden"
        parts.append(
            tag("circle", told, cx=x_of(x), cy=y_of(y), r=3 if few else 5, class_=f"{dot} {style}")
        )
    return parts


def _line(points: Sequence[Point], x_of: Scale, y_of: Scale, style: str) -> Markup:
    path = " ".join(f"{x_of(x):g},{y_of(y):g}" for x, y in points)
    return tag("polyline", points=path, class_=style)


def _summary(one: Series, unit: str) -> str:
    (first, start), (last, end) = one.points[0], one.points[-1]
    return f"{one.name}: {start:.4g}{unit} at step {first:g}, {end:.4g}{unit} at step {last:g}"
