"""The images that a page may ask about again."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from reconet.serve.image_store import ImageStore, StoredImage

SIDE = 10
ONE = 3 * SIDE * SIDE  # bytes of an image


def stored() -> StoredImage:
    nothing: Any = SimpleNamespace(nbytes=0)
    return StoredImage(image_hwc=np.zeros((SIDE, SIDE, 3), np.uint8), pixel_map=nothing)


def test_the_image_that_was_not_used_for_longest_is_dropped() -> None:
    store = ImageStore(most=2, most_bytes=100 * ONE)
    first, second = store.add(stored()), store.add(stored())
    assert store.get(first) is not None
    third = store.add(stored())
    assert [store.get(name) is not None for name in (first, second, third)] == [True, False, True]


def test_an_image_that_grows_pushes_others_out_and_stays_itself() -> None:
    store = ImageStore(most=9, most_bytes=3 * ONE)
    ids = [store.add(stored()) for _ in range(3)]
    last = store.get(ids[2])
    assert last is not None
    explorer: Any = SimpleNamespace(nbytes=50 * ONE)
    last.explorer = explorer
    store.trim()
    assert [store.get(name) is last for name in ids] == [False, False, True]
    assert store.get(ids[0]) is None


def test_an_unknown_id_is_no_image() -> None:
    assert ImageStore(most=1, most_bytes=1).get("guess") is None
