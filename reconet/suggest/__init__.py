"""Suggest which images to label next, and which masks to look at again.

suggest.py   rank images without labels, or a split with masks, and write a page
images.py    the images that are ranked, and what could not be read
rank.py      the figures of each image, and their order
order.py     several figures into one order: the mean of their ranks
pixels.py    where a network is unsure, and where it contradicts a mask
novelty.py   how different images are from those of the training
page.py      the HTML page, with the regions marked
"""

from reconet.suggest.page import describe_columns, describe_figures
from reconet.suggest.rank import Suggestion
from reconet.suggest.suggest import Suggestions, suggest

__all__ = ["Suggestion", "Suggestions", "describe_columns", "describe_figures", "suggest"]
