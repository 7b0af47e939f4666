"""A kit for HTML pages in one file: values in, markup out.

markup.py   Markup and tag(): text is escaped unless it was built here; sections, tables, notes
page.py     html_page(): the page around all, with its style for light, dark, phone and print
charts.py   curves as inline SVG
matrix.py   a confusion matrix as inline SVG
images.py   images inside the page
"""

from reconet.report.html.charts import Point, Series, legend, line_chart
from reconet.report.html.images import jpeg_image, png_image
from reconet.report.html.markup import (
    Markup,
    embedded_image,
    join,
    note,
    percent,
    scrolling,
    section,
    table,
    tag,
    tiles,
)
from reconet.report.html.matrix import draw_confusion
from reconet.report.html.page import html_page

__all__ = [
    "Markup",
    "Point",
    "Series",
    "draw_confusion",
    "embedded_image",
    "html_page",
    "join",
    "jpeg_image",
    "legend",
    "line_chart",
    "note",
    "percent",
    "png_image",
    "scrolling",
    "section",
    "table",
    "tag",
    "tiles",
]
