"""A disk without room for all features is told before the first is computed."""

import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from reconet.cache import Store, check_room
from reconet.errors import OutputError

SPARE_BYTES = 2**28


def make_store(directory: Path, count: int) -> Store:
    return Store(directory, count, "c4", "float16", (64, 4, 6))


class Disk(NamedTuple):
    total: int
    used: int
    free: int


def leave_free(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Disk(size, 0, size))


def test_what_no_disk_can_hold_is_an_error_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"need .* TB and .* free; set RECONET_CACHE"):
        check_room([make_store(tmp_path, 10**12)])


def test_stores_that_fit_alone_have_to_fit_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (make_store(tmp_path / name, 10) for name in ("one", "other"))
    leave_free(monkeypatch, one.bytes + other.bytes)
    check_room([one])
    check_room([other])
    check_room([one, make_store(one.directory, 10)])  # the same, asked for twice
    with pytest.raises(OutputError, match="the features need"):
        check_room([one, other])


def test_only_what_is_missing_needs_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_store(tmp_path / "store", 2)
    assert store.missing_bytes() == store.bytes
    store.create({})
    entry = np.zeros((64, 4, 6), np.float16)
    store.write(1, entry)
    assert store.missing_bytes() == store.bytes // 2
    leave_free(monkeypatch, store.bytes)
    check_room([store])
    store.write(0, entry)
    leave_free(monkeypatch, 0)
    check_room([store])


def test_a_small_need_leaves_little_to_spare_and_a_large_one_not_more_than_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = make_store(tmp_path / "small", 100)  # 307 kB
    leave_free(monkeypatch, 2 * small.bytes)
    check_room([small])
    large = make_store(tmp_path / "large", 10**7)
    leave_free(monkeypatch, large.bytes + SPARE_BYTES)
    check_room([large])
    leave_free(monkeypatch, large.bytes + SPARE_BYTES - 1)
    with pytest.raises(OutputError, match="the features need"):
        check_room([large])
