"""A public network by its name: fetched, converted, kept, and opened without the network."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from reconet.errors import CheckpointError, RecipeError
from reconet.models.trained import load_trained
from reconet.zoo import CATALOGUE, open_public
from tests.factories import ProgressRecorder
from tests.zoo.server import FileServer, serve
from tests.zoo.test_convert import mmseg_net, save

NAME = "pspnet_r50-d8_512x512_40k_voc12aug"


def offer(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the catalogue lead to a server on this machine."""
    sha256 = hashlib.sha256(server.data).hexdigest()[:8]
    entry = replace(CATALOGUE[NAME], address=server.address, sha256=sha256)
    monkeypatch.setitem(CATALOGUE, NAME, entry)


def test_a_name_becomes_a_file_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path / "cache"))
    data = save(tmp_path / "a.pth", mmseg_net("pspnet", k=21)).read_bytes()
    progress = ProgressRecorder()
    with serve(data) as server:
        offer(server, monkeypatch)
        path = open_public(NAME, progress)
    assert open_public(NAME) == path  # the server is gone
    assert "convert" in progress.lines
    assert path.is_relative_to(tmp_path / "cache")
    names = sorted(one.name for one in path.parent.iterdir())
    assert names == [".lock", "best.safetensors", "recipe.json"]
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


def test_a_network_of_other_classes_than_published_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path / "cache"))
    with serve(save(tmp_path / "a.pth", mmseg_net("pspnet", k=19)).read_bytes()) as server:
        offer(server, monkeypatch)
        with pytest.raises(CheckpointError, match="it has 19 classes, and voc12 has 21"):
            open_public(NAME)


def test_an_unknown_name_is_refused_before_anything_is_fetched() -> None:
    with pytest.raises(RecipeError, match="unknown public network"):
        open_public("pspnet_r50")
