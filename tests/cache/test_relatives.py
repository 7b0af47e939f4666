"""A new store takes entries from stores of the same kind, and changes nothing there."""

from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

from reconet.cache import Store
from reconet.cache.lock import lock_unused
from tests.cache.helpers import open_list, opened, views_of


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Read all files but the mark of use, with the numbers that tell a rewritten file."""
    return {
        path.name: (path.stat().st_ino, path.read_bytes())
        for path in folder.iterdir()
        if path.name != ".use"
    }


@pytest.mark.parametrize("file", ["c4.bin", "shapes.bin", "checksums.bin"])
@pytest.mark.parametrize("kind", ["gone", "short"])
def test_a_broken_relative_is_left_as_it_is(tree: Path, file: str, kind: str) -> None:
    relative = opened(views_of(open_list(tree, "train"))).directory
    path = relative / file
    data = path.read_bytes()
    path.unlink()
    if kind == "short":
        path.write_bytes(data[: len(data) // 2])
    before = contents(relative)
    store = opened(views_of(open_list(tree, "val")))
    assert store.missing() == []
    assert contents(relative) == before


def test_a_relative_is_only_read_and_in_use_meanwhile(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relative = opened(views_of(open_list(tree, "train"))).directory
    before, in_use = contents(relative), []
    read = Store.read

    def watch(self: Store, index: int) -> dict[str, NDArray[Any]]:
        if self.directory == relative:
            with lock_unused(relative) as unused:
                in_use.append(not unused)
        return read(self, index)

    monkeypatch.setattr(Store, "read", watch)
    opened(views_of(open_list(tree, "val")))
    assert in_use == [True, True]  # two views of the image that both lists have
    assert contents(relative) == before
    with lock_unused(relative) as unused:
        assert unused


@pytest.mark.parametrize("text", ["{}", "3", "[[]]", "[]", "no json"])
def test_a_list_of_entries_that_makes_no_sense_is_passed_over(tree: Path, text: str) -> None:
    relative = opened(views_of(open_list(tree, "train"))).directory
    (relative / "entries.json").write_text(text)
    assert opened(views_of(open_list(tree, "val"))).missing() == []
