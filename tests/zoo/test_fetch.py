"""Downloads from a server on this machine: once, resumed, checked, and with clear errors."""

import hashlib
from pathlib import Path

import pytest

from reconet.errors import CheckpointError, OutputError
from reconet.zoo import fetch as module
from reconet.zoo.fetch import fetch
from tests.factories import ProgressRecorder
from tests.zoo.server import serve

DATA = bytes(range(256)) * 10_000
SHA256 = hashlib.sha256(DATA).hexdigest()[:8]


def test_a_file_is_fetched_once_with_progress(tmp_path: Path) -> None:
    path, progress = tmp_path / "new" / "net.pth", ProgressRecorder()
    with serve(DATA) as server:
        for _ in range(2):
            assert fetch(server.address, path, SHA256, progress) == path
        assert server.asked == [None]
    assert path.read_bytes() == DATA
    assert [other.name for other in path.parent.iterdir()] == ["net.pth"]
    assert progress.lines[0] == f"start {len(DATA) // 2**20}"
    assert sum(line.startswith("advance") for line in progress.lines) >= 3


@pytest.mark.parametrize("ranges", [True, False])
def test_what_was_interrupted_is_resumed(tmp_path: Path, ranges: bool) -> None:
    path = tmp_path / "net.pth"
    with serve(DATA, ranges=ranges) as server:
        server.breaks_after = 700_000
        with pytest.raises(CheckpointError, match="700 kB are kept: try again") as caught:
            fetch(server.address, path, SHA256)
        assert "\n" not in str(caught.value)
        assert not path.exists()
        server.breaks_after = None
        fetch(server.address, path, SHA256)
        assert server.asked == [None, "bytes=700000-"]
    assert path.read_bytes() == DATA


def test_a_part_that_is_complete_is_only_checked(tmp_path: Path) -> None:
    (tmp_path / "net.pth.part").write_bytes(DATA)
    with serve(DATA) as server:
        assert fetch(server.address, tmp_path / "net.pth", SHA256).read_bytes() == DATA


def test_another_file_than_the_published_one_is_deleted(tmp_path: Path) -> None:
    with serve(DATA) as server, pytest.raises(CheckpointError, match="instead of 00000000"):
        fetch(server.address, tmp_path / "net.pth", "00000000")
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_refuses_is_quoted(tmp_path: Path) -> None:
    with serve(DATA) as server:
        server.status = 404
        with pytest.raises(CheckpointError, match="the server answers 404 Not Found"):
            fetch(server.address, tmp_path / "net.pth", SHA256)


def test_without_a_network_there_is_one_line(tmp_path: Path) -> None:
    with serve(DATA) as server:
        address = server.address
    with pytest.raises(CheckpointError, match=r"Connection refused.*Is this machine online\?$"):
        fetch(address, tmp_path / "net.pth", SHA256)


def test_a_file_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 100_000)
    with serve(DATA) as server, pytest.raises(CheckpointError, match="is larger than 100 kB"):
        fetch(server.address, tmp_path / "net.pth", SHA256)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        fetch("http://127.0.0.1:9/x", tmp_path / "file" / "net.pth", SHA256)
