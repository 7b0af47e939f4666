"""Counts with their nouns, and names that a terminal cannot obey."""

import pytest

from reconet.system.readable import counted, printable


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


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("road and grass.png", "road and grass.png"),
        ("Straße ä 道路 🚗", "Straße ä 道路 🚗"),
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b]0;title\x07x", "\\x1b]0;title\\x07x"),
        ("a\rb\x08c\x7f", "a\\x0db\\x08c\\x7f"),
        ("\x9b2J", "\\x9b2J"),
        ("gpj.\u202eexe", "gpj.\\u202eexe"),
        (b"caf\xe9.png".decode(errors="surrogateescape"), "caf\\xe9.png"),
    ],
)
def test_names_are_printed_but_not_obeyed(name: str, shown: str) -> None:
    assert printable(name) == shown
    printable(name).encode()  # always possible
