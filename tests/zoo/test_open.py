"""A public network by its name: fetched, converted, kept, and opened without the network."""

import hashlib
import socket
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from reconet.cli import main
from reconet.errors import CheckpointError, OutputError
from reconet.models import load_trained
from reconet.zoo import CATALOGUE, catalogue, open_public
from tests.factories import ProgressRecorder
from tests.zoo.server import FileServer, serve
from tests.zoo.test_convert import mmseg_net, save

NAME = "pspnet_r50-d8_512x512_40k_voc12aug"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def offer(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the catalogue lead to a server on this machine."""
    sha256 = hashlib.sha256(server.data).hexdigest()[:8]
    entry = replace(CATALOGUE[NAME], address=server.address, sha256=sha256)
    monkeypatch.setitem(CATALOGUE, NAME, entry)


def refused(message: str) -> str:
    """Open the network, which fails in one line and leaves no file."""
    with pytest.raises(CheckpointError, match=message) as caught:
        open_public(NAME)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_name_becomes_a_file_in_the_cache(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = save(tmp_path / "a.pth", mmseg_net("pspnet", k=21)).read_bytes()
    progress = ProgressRecorder()
    stray = cache / "zoo" / NAME / ".net.pth.killed.part"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(data[:1000])  # of a fetch that was killed
    with serve(data) as server:
        offer(server, monkeypatch)
        server.breaks_after = 700_000
        refused("broke after 700 kB. Try again")
        assert files_in(cache) == [stray.name]
        server.breaks_after = None
        path = open_public(NAME, progress)
        assert server.asked == 2
    assert open_public(NAME) == path  # the server is gone
    assert "convert" in progress.lines
    assert progress.lines[0] == "start 1"  # in megabytes
    assert "advance 1" in progress.lines
    assert files_in(cache) == ["best.safetensors", "recipe.json"]
    assert path.is_relative_to(cache)
    opened = load_trained(path)
    assert opened.info.score == {"miou": 0.7729}
    assert opened.info.step == 40_000
    assert opened.info.origin["licence"] == "Apache-2.0"
    assert opened.info.origin["protocol"] == (
        "as published: whole images at a short side of 512, one scale, no mirror images"
    )
    with torch.no_grad():
        logits = opened.model(torch.zeros(1, 3, 40, 40, dtype=torch.uint8))
    assert logits.main_bkhw.shape == (1, 21, 40, 40)


def test_what_a_server_sends_instead_of_the_file_is_refused(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(save(tmp_path / "a.pth", mmseg_net("pspnet", k=19)).read_bytes()) as server:
        offer(server, monkeypatch)
        refused("it has 19 classes, and voc12 has 21")
        server.data = server.data[:-1] + b"!"
        assert CATALOGUE[NAME].sha256 in refused("is not the file that was published")
        server.status = 404
        refused("the server answers 404 Not Found")
    refused(r"Connection refused.*Is this machine online\?$")
    assert not (cache / "zoo" / NAME / "best.safetensors").exists()


def test_a_server_that_says_nothing_is_given_up(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(catalogue, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/net.pth"
        monkeypatch.setitem(CATALOGUE, NAME, replace(CATALOGUE[NAME], address=address))
        assert main(["export", NAME]) == 2
    err = capsys.readouterr().err
    assert "timed out. Is this machine online?" in err.splitlines()[-1]


def test_a_folder_that_cannot_be_made_is_named(cache: Path) -> None:
    cache.write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        open_public(NAME)
