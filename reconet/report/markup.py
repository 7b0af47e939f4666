"""HTML and SVG as text, escaped unless it was built here. Pure."""

import base64
import html
from collections.abc import Iterable, Sequence

Attribute = str | float | None
VOID = frozenset({"circle", "img", "line", "meta", "polyline", "rect"})


class Markup(str):
    """Text that is markup already. Any other text is escaped on its way into a page."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: Attribute) -> Markup:
    """`tag("td", "<b>", class_="name")` -> `<td class="name">&lt;b&gt;</td>`.

    An attribute's trailing underscore goes, its others become hyphens; None leaves it out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID and not children:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def join(parts: Iterable[str]) -> Markup:
    return Markup("".join(p if isinstance(p, Markup) else html.escape(p) for p in parts))


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str | None = None
) -> Markup:
    """The first cell of a row is its name; the table scrolls by itself where it is too wide."""
    lines = [
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:]))
        for row in rows
    ]
    columns = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in head)))
    about = [tag("caption", caption)] if caption else []
    return scrolling(tag("table", *about, columns, tag("tbody", *lines)), caption or head[0])


def scrolling(content: Markup, label: str) -> Markup:
    """A box that scrolls sideways; by keyboard too, hence the tabindex."""
    return tag("div", content, class_="wide", tabindex="0", role="region", aria_label=label)


def image(data: bytes, alt: str, kind: str = "png", **attributes: Attribute) -> Markup:
    """An image that is in the page itself."""
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    return tag("img", src=source, alt=alt, **attributes)


def section(title: str, *content: str, level: int = 2) -> Markup:
    return tag("section", tag(f"h{level}", title), *content)


def note(text: str) -> Markup:
    return tag("p", text, class_="note")


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
