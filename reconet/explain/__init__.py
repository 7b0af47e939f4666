"""Explain what a network looks at in one image, with figures and one HTML page.

explain.py   the whole: explain_image() finds the image and writes the files
compute.py   what each rank of a context is and does, and the attention that other contexts show
draw.py      figures: values in, PNG out
"""

from reconet.explain.explain import PAGE, Explanation, explain_image, parse_point

__all__ = ["PAGE", "Explanation", "explain_image", "parse_point"]
