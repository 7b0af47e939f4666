"""Explain what a network looks at in one image, with figures and one HTML page.

explain.py   the whole: explain_image() finds the image and writes the files
ranks.py     what each rank of a context is, where it looks, and what it says
maps.py      the attention that other contexts show
draw.py      figures: values in, PNG out
"""

from reconet.explain.explain import PAGE, Explanation, explain_image, parse_point
from reconet.explain.maps import attention_maps, has_ranks, shows_maps
from reconet.explain.ranks import choose_ranks, measure_contributions

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
