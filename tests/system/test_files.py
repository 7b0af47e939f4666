import os
from pathlib import Path
from typing import BinaryIO

import pytest

from reconet.errors import OutputError
from reconet.system.files import (
    append_text,
    readable_bytes,
    staged_write,
    write_atomic,
    write_text,
)


def test_write_replaces_a_file_and_makes_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"
    write_text(path, "one")
    write_text(path, "zwei ä")
    assert path.read_text(encoding="utf-8") == "zwei ä"


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def broken(file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OutputError, match=r"cannot write .*file\.txt: disk full"):
        write_atomic(path, broken)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file.txt"]


def test_a_written_file_has_the_usual_permissions(tmp_path: Path) -> None:
    usual, path = tmp_path / "usual", tmp_path / "file"
    usual.touch()
    write_text(path, "x")
    assert path.stat().st_mode == usual.stat().st_mode


def test_a_link_stays_a_link_and_no_device_is_replaced(tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.touch()
    link.symlink_to(target)
    write_text(link, "through")
    assert link.is_symlink()
    assert target.read_text() == "through"
    os.mkfifo(pipe)
    with pytest.raises(OutputError, match="no ordinary file"):
        write_text(pipe, "x")
    assert not pipe.is_file()


def test_a_link_out_of_its_folder_or_to_itself_is_not_followed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "run", tmp_path / "outside"
    folder.mkdir()
    (folder / "dangling").symlink_to(outside)
    (folder / "loop").symlink_to("loop")
    (folder / "file").touch()
    for name in ("dangling", "loop"):
        with pytest.raises(OutputError, match="it is a link that leads"):
            write_text(folder / name, "x")
    for name in ("dangling", "loop"):
        with pytest.raises(OutputError, match="it is a link"):
            append_text(folder / name, "x")
        with pytest.raises(OutputError, match="it is a link"), staged_write(folder / name) as part:
            part.write_text("x")
    (folder / "within").symlink_to("file")
    with staged_write(folder / "within") as part:
        part.write_text("x")
    assert (folder / "file").read_text() == "x"
    assert not outside.exists()


@pytest.mark.parametrize("place", ["link", "link/file", "link/more/file"])
def test_a_link_to_a_folder_that_does_not_exist_makes_none(tmp_path: Path, place: str) -> None:
    (tmp_path / "link").symlink_to("a/" * 1000)  # pathlib would make them by as many calls
    with pytest.raises(OutputError, match="a folder that does not exist"):
        write_atomic(tmp_path / place, lambda file: file.write(b"x"))
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_text_is_appended_to_ordinary_files_only(tmp_path: Path) -> None:
    path, pipe = tmp_path / "log", tmp_path / "pipe"
    append_text(path, "one ä\n")
    append_text(path, "two\n")
    assert path.read_text(encoding="utf-8") == "one ä\ntwo\n"
    os.mkfifo(pipe)
    with pytest.raises(OutputError, match=r"cannot write .*pipe"):
        append_text(pipe, "x")


def test_sizes_are_readable() -> None:
    values = (0, 999, 1000, 99_400, 655_360, 3.41e6, 999.9e6, 12e9, 2.5e12)
    told = ["0 B", "999 B", "1.0 kB", "99.4 kB", "655 kB", "3.4 MB", "1.0 GB", "12.0 GB", "2.5 TB"]
    assert [readable_bytes(value) for value in values] == told
