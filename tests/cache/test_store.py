from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from reconet.cache import Store
from reconet.errors import DataError

FILES = ["c4.bin", "shapes.bin", "checksums.bin"]


def array(seed: int, size: tuple[int, int] = (3, 5)) -> NDArray[np.float16]:
    return np.random.default_rng(seed).normal(size=(4, *size)).astype(np.float16)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "store", 6, "c4", "float16", (4, 3, 5))
    store.create({"dataset": "made up"})
    return store


def opened_again(store: Store) -> Store:
    again = replace(store)
    again.create({})
    return again


def test_what_is_written_is_read_by_another_process(store: Store) -> None:
    store.write(2, array(2))
    store.write(5, array(5, (2, 1)))  # smaller than its slot
    again = opened_again(store)
    for index, expected in ((2, array(2)), (5, array(5, (2, 1)))):
        np.testing.assert_array_equal(again.read(index), expected)
    assert again.missing() == [0, 1, 3, 4]
    assert again.damaged() == []


def test_an_array_larger_than_its_slot_is_refused(store: Store) -> None:
    with pytest.raises(DataError, match=r"c4 is \(4, 3, 6\)"):
        store.write(0, array(0, (3, 6)))
    assert store.missing() == list(range(6))


@pytest.mark.parametrize("file", FILES)
def test_a_flipped_bit_is_found_wherever_it_is(store: Store, file: str) -> None:
    for index in range(6):
        store.write(index, array(index))
    path = store.directory / file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    again = opened_again(store)
    assert again.damaged() == [3]
    again.forget([3])
    assert again.missing() == [3]


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_was_cut_short_loses_only_what_was_cut(store: Store, file: str) -> None:
    for index in range(6):
        store.write(index, array(index))
    path = store.directory / file
    path.write_bytes(path.read_bytes()[: 4 * path.stat().st_size // 6])
    again = opened_again(store)
    lost = sorted({*again.missing(), *again.damaged()})
    assert lost == [4, 5]


def test_shapes_of_a_stranger_do_not_reach_beyond_their_slots(store: Store) -> None:
    store.write(0, array(0))
    path = store.directory / "shapes.bin"
    path.write_bytes(np.full(6 * 4, 2**30, np.int32).tobytes())
    assert opened_again(store).damaged() == [0]
