"""Explain what a network looks at in one image, with figures and one HTML page.

explain.py   the whole: explain_image() finds the image and writes the files
contexts.py  what the ranks of a context are and do, or the attention that it shows
draw.py      figures: values in, PNG out
"""

from reconet.explain.contexts import (
    attention_maps,
    choose_ranks,
    has_ranks,
    measure_contributions,
    shows_maps,
)
from reconet.explain.explain import PAGE, Explanation, explain_image, parse_point

__all__ = [
    "PAGE",
    "Explanation",
    "attention_maps",
    "choose_ranks",
    "explain_image",
    "has_ranks",
    "measure_contributions",
    "parse_point",
    "shows_maps",
]
