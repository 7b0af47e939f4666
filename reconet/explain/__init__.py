"""Explain what a network looks at in one image, with figures and one HTML page.

explain.py           the whole: explain_image() writes the files
source.py            find the image: a file, or one of the dataset with its labels
explained_image.py   the image with labels and prediction
ranks.py             what each rank of a context is and does, in numbers
attention.py         the attention that other contexts show
draw.py              figures: values in, PNG out
page.py              the page: values in, markup out
"""

from reconet.explain.explain import PAGE, Explanation, explain_image, parse_point

__all__ = ["PAGE", "Explanation", "explain_image", "parse_point"]
