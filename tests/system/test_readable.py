"""Counts with their nouns."""

import pytest

from reconet.system.readable import counted


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (0, "image", "0 images"),
        (1, "image", "1 image"),
        (1464, "image", "1,464 images"),
        (1, "class", "1 class"),
        (2, "class", "2 classes"),
        (1, "entry", "1 entry"),
        (3, "entry", "3 entries"),
    ],
)
def test_one_is_singular_and_all_else_plural(count: int, noun: str, text: str) -> None:
    assert counted(count, noun) == text
