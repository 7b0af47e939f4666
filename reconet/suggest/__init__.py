"""Suggest which images to label next, and which masks to look at again.

suggest.py   find the images, rank them, and write a page with the regions marked
rank.py      the figures of pixels and images, and the order that they give
"""

from reconet.suggest.rank import Suggestion
from reconet.suggest.suggest import Suggestions, describe_figures, suggest

__all__ = ["Suggestion", "Suggestions", "describe_figures", "suggest"]
