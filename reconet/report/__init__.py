"""Report on runs: one HTML file with everything in it, which loads nothing from elsewhere.

html.py      fill the templates of pages; explain, suggest and study use it too
compare.py   a page that compares networks on the same images
gallery.py   write_gallery(): thumbnails of the predictions of a folder
report.py    write_report(): read runs, fill the page, write it
templates/   the pages and their style
"""

from reconet.report.compare import (
    check_page,
    class_differences,
    comparison_protocols,
    comparison_scores,
    image_differences,
    write_comparison,
)
from reconet.report.gallery import write_gallery
from reconet.report.html import (
    Series,
    confusion_matrix,
    html_page,
    image_source,
    is_page,
    line_chart,
    percent,
    png_source,
)
from reconet.report.report import write_report

__all__ = [
    "Series",
    "check_page",
    "class_differences",
    "comparison_protocols",
    "comparison_scores",
    "confusion_matrix",
    "html_page",
    "image_differences",
    "image_source",
    "is_page",
    "line_chart",
    "percent",
    "png_source",
    "write_comparison",
    "write_gallery",
    "write_report",
]
