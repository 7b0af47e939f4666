"""Only ordinary files are read, and only as much of them as was allowed."""

import errno
import os
import socket
from pathlib import Path

import pytest

from reconet.system.reading import check_file, open_file, read_file


def test_an_ordinary_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"abc")
    assert read_file(path) == b"abc"
    assert check_file(path, limit=3) == path
    with open_file(path, limit=3, within=tmp_path) as file:
        assert file.read() == b"abc"


@pytest.mark.parametrize("kind", ["pipe", "device", "socket", "folder"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "thing"
    server = socket.socket(socket.AF_UNIX)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "socket":
        server.bind(str(path))
    else:
        path.mkdir()
    # A socket is refused by the system itself.
    reason = "No such device" if kind == "socket" else f"it is a {kind}"
    with server, pytest.raises(OSError, match=reason):
        read_file(path)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(10**12)  # takes no room
    with pytest.raises(OSError, match="1,000,000,000,000 bytes") as raised:
        read_file(path, limit=100)
    assert raised.value.errno == errno.EFBIG


def test_a_link_may_lead_to_a_file_of_the_same_folder_only(tmp_path: Path) -> None:
    folder, outside = tmp_path / "run", tmp_path / "secret"
    (folder / "inner").mkdir(parents=True)
    outside.write_bytes(b"secret")
    (folder / "inner/file").write_bytes(b"fine")
    (folder / "near").symlink_to("inner/file")
    (folder / "away").symlink_to(outside)
    (folder / "loop").symlink_to("loop")
    assert read_file(folder / "near", within=folder) == b"fine"
    assert read_file(folder / "away") == b"secret"  # where no folder is given, links are followed
    with pytest.raises(OSError, match="leads out of its folder"):
        read_file(folder / "away", within=folder)
    for within in (None, folder):
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            read_file(folder / "loop", within=within)


def test_a_folder_may_be_named_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/file").write_bytes(b"fine")
    (tmp_path / "link").symlink_to("real")
    assert read_file(tmp_path / "link/file", within=tmp_path / "link") == b"fine"
