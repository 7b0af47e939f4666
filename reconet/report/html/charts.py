"""Draw curves as inline SVG: numbers in, markup out.

Colours are CSS classes (s0, s1, ...) of page.py, so that light and dark pages both work.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from reconet.report.html.markup import Markup, tag
from reconet.system.readable import counted

WIDTH, HEIGHT = 420, 230
LEFT, RIGHT, TOP, BOTTOM = 50, 14, 12, 36
STYLES = 8  # series that the page's style can tell apart
MOST_TICKS = 6
MOST_POINTS = 300  # of one curve
FEW_POINTS = 40  # a curve with no more has dots and is not smoothed

Point = tuple[float, float]


class Series(NamedTuple):
    """One curve of a chart."""

    name: str
    points: Sequence[Point]
    style: int = 0


class Scale(NamedTuple):
    """A linear map from values low..high to positions start..stop."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.stop - self.start), 2)


def ticks(low: float, high: float) -> list[float]:
    """Return round numbers that enclose low..high, in steps of 1, 2 or 5 times 10^n."""
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
    """Write a number briefly, to fit beside an axis."""
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k" if abs(value) < 1e6 else f"{value / 1e6:g}M"
    if 0 < abs(value) < 0.001:
        power = math.floor(math.log10(abs(value)))
        return f"{value / 10.0**power:.3g}e{power}"
    return f"{value:g}"


def finite(points: Iterable[Point]) -> list[Point]:
    """Drop points that are not finite."""
    return [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]


def thin_out(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """Drop points of a long curve. Each stretch keeps its lowest and highest: no spike is lost."""
    if len(points) <= most:
        return list(points)
    stretch = math.ceil(len(points) / (most // 2))
    kept = []
    for start in range(0, len(points), stretch):
        part = points[start : start + stretch]
        ends = {min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])}
        kept += sorted(ends)
    return kept


def smooth(points: Sequence[Point]) -> list[Point]:
    """Compute the running mean over a thirtieth of the curve, half of it on each side."""
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
    """Draw a figure with a heading, the curves, and a legend if there are several.

    The vertical axis reaches down to `low`, such as zero.
    """
    finite_series = [Series(s.name, finite(s.points), s.style) for s in series]
    drawn = [s for s in finite_series if s.points]
    lost = sum(len(s.points) for s in series) - sum(len(s.points) for s in drawn)
    parts = [tag("figcaption", tag("h3", title), *([tag("p", about)] if about else []))]
    if drawn:
        parts.append(_plot(title, drawn, unit, low))
    else:
        parts.append(tag("p", "nothing was logged", class_="note"))
    if len(series) > 1:
        parts.append(legend([(s.name, s.style) for s in drawn]))
    if lost:
        parts.append(
            tag("p", f"Not finite, so not drawn: {counted(lost, 'value')}.", class_="note")
        )
    return tag("figure", *parts, class_="chart")


def legend(entries: Iterable[tuple[str, int]]) -> Markup:
    """List the names of curves with their line styles."""
    keys = [
        tag("li", tag("span", class_=f"key k{style % STYLES}"), name) for name, style in entries
    ]
    return tag("ul", *keys, class_="legend")


def _plot(title: str, series: Sequence[Series], unit: str, low: float | None) -> Markup:
    xs = [x for s in series for x, _ in s.points]
    ys = [y for s in series for _, y in s.points]
    # The horizontal axis ends where the training ended, the vertical one at a round number.
    end = max(1.0, *xs)
    along = [x for x in ticks(0, end) if x <= end]
    up = ticks(min(ys) if low is None else min(low, *ys), max(ys))
    x_of = Scale(0, end, LEFT, WIDTH - RIGHT)
    y_of = Scale(up[0], up[-1], HEIGHT - BOTTOM, TOP)
    parts = _grid(along, up, x_of, y_of)
    for one in series:
        parts += _curve(one, x_of, y_of, unit)
    label = f"{title}. {'; '.join(_summary(s, unit) for s in series)}."
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
    points = thin_out(one.points)
    parts = [_line(points, x_of, y_of, f"line {style}" if few else f"line faint {style}")]
    if not few:
        parts.append(_line(thin_out(smooth(one.points)), x_of, y_of, f"line {style}"))
    for x, y in points:
        title = tag("title", f"{one.name}, step {x:g}: {y:.4g}{unit}")
        dot = "dot" if few else "dot hidden"
        parts.append(
            tag("circle", title, cx=x_of(x), cy=y_of(y), r=3 if few else 5, class_=f"{dot} {style}")
        )
    return parts


def _line(points: Sequence[Point], x_of: Scale, y_of: Scale, style: str) -> Markup:
    path = " ".join(f"{x_of(x):g},{y_of(y):g}" for x, y in points)
    return tag("polyline", points=path, class_=style)


def _summary(one: Series, unit: str) -> str:
    (first, start), (last, end) = one.points[0], one.points[-1]
    return f"{one.name}: {start:.4g}{unit} at step {first:g}, {end:.4g}{unit} at step {last:g}"
