"""Suggest which images to label next, and which masks to look at again.

suggest.py   find the images, rank them, and write a page
rank.py      the figures of pixels and images, and the order that they give
page.py      the HTML page, with the regions marked
"""

from reconet.suggest.page import describe_figures
from reconet.suggest.rank import Suggestion
from reconet.suggest.suggest import Suggestions, suggest

__all__ = ["Suggestion", "Suggestions", "describe_figures", "suggest"]
