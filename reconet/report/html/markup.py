"""Build HTML and SVG as text. Text is escaped unless it was built here."""

import base64
import html
import math
from collections.abc import Iterable, Sequence

from reconet.system.readable import printable

Attribute = str | float | None
EMPTY_ELEMENTS = frozenset({"circle", "img", "line", "meta", "polyline", "rect"})


class Markup(str):
    """Text that is markup already. Any other text is escaped on its way into a page."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: Attribute) -> Markup:
    """Build an element: `tag("td", "<b>", class_="name")` -> `<td class="name">&lt;b&gt;</td>`.

    The trailing underscore of an attribute is dropped, the others become hyphens. An attribute
    that is None is left out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in EMPTY_ELEMENTS and not children:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def join(parts: Iterable[str]) -> Markup:
    """Join parts of a page, and escape those that are not markup."""
    return Markup("".join(p if isinstance(p, Markup) else _escape(p) for p in parts))


def _escape(text: str) -> str:
    return html.escape(printable(text))


def section(title: str, *content: str, level: int = 2) -> Markup:
    """Build a section with a heading."""
    return tag("section", tag(f"h{level}", title), *content)


def note(text: str) -> Markup:
    """Build a highlighted paragraph."""
    return tag("p", text, class_="note")


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str | None = None
) -> Markup:
    """Build a table. The first cell of a row is its heading. A wide table scrolls sideways."""
    lines = [
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:]))
        for row in rows
    ]
    columns = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in head)))
    about = [tag("caption", caption)] if caption else []
    return scrolling(tag("table", *about, columns, tag("tbody", *lines)), caption or head[0])


def tiles(entries: Iterable[tuple[str, str]]) -> Markup:
    """Build a row of large figures, each a value and its name."""
    items = [tag("li", tag("b", value), tag("span", name)) for value, name in entries]
    return tag("ul", *items, class_="tiles")


def scrolling(content: Markup, label: str) -> Markup:
    """Build a box that scrolls sideways. The tabindex makes it scroll by keyboard too."""
    return tag("div", content, class_="wide", tabindex="0", role="region", aria_label=label)


def embedded_image(data: bytes, alt: str, kind: str = "png", **attributes: Attribute) -> Markup:
    """Build an image from the bytes of a file. The bytes are inside the page."""
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    return tag("img", src=source, alt=alt, **attributes)


def percent(value: float | None, *, digits: int = 1, absent: str = "-") -> str:
    """Write a fraction in per cent, or `absent` if there is none."""
    if value is None or math.isnan(value):
        return absent
    return f"{100 * value:.{digits}f}\u00a0%"


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
