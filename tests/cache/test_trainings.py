"""What a training on cached features notices: other masks, a read-only disk, large images."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from PIL import Image

from reconet.engine import run_training
from reconet.errors import OutputError
from reconet.models import load_trained
from reconet.recipes import apply_overrides
from tests.data.trees import OPTIONS, make_tree
from tests.engine.test_frozen import FROZEN, trained
from tests.factories import ProgressRecorder, tiny_recipe
from tests.launch import weights


def test_corrected_masks_are_learned_from_and_no_feature_is_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check it with masks whose files keep their sizes, as most corrected PNGs do."""
    make_tree("folder", tmp_path / "data")
    masks = list((tmp_path / "data/masks").rglob("*.png"))
    options = json.dumps(OPTIONS["folder"])
    data = ("data.name=folder", f"data.root={tmp_path / 'data'}", f"data.options={options}")
    recipe = apply_overrides(tiny_recipe(), [*FROZEN[:4], *FROZEN[6:], *data, "train.batch=1"])

    def trained_on(name: str, label: int) -> tuple[dict[str, torch.Tensor], list[str]]:
        for path in masks:
            with Image.open(path) as mask:
                size = mask.size
            Image.new("L", size, label).save(path, compress_level=0)
        progress = ProgressRecorder()
        run_training(recipe, tmp_path / name, device="cpu", progress=progress)
        built = [line for line in progress.lines if " go to " in line]
        return weights(tmp_path / name), built

    before, _ = trained_on("before", 0)
    after, built = trained_on("after", 1)
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path / "other cache"))
    expected, _ = trained_on("expected", 1)
    assert all(torch.equal(after[name], expected[name]) for name in expected)
    assert not all(torch.equal(after[name], before[name]) for name in expected)
    assert len(built) == 1  # the labels


@pytest.fixture
def read_only() -> Iterator[Callable[[Path], None]]:
    """Give what makes a folder read-only, for root too."""
    places: list[Path] = []

    def protect(place: Path) -> None:
        for options in (["--bind", str(place)], ["-o", "remount,ro,bind"]):
            done = subprocess.run(["mount", *options, str(place)], capture_output=True, check=False)
            if done.returncode:
                pytest.skip("only root can mount a read-only folder, and not in every container")
            places.append(place)

    yield protect
    for place in set(places):
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_complete_cache_is_enough_on_a_disk_that_can_only_be_read(
    tmp_path: Path, read_only: Callable[[Path], None]
) -> None:
    before = trained(tmp_path / "before")
    read_only(tmp_path / "cache")
    after = trained(tmp_path / "after")
    assert all(torch.equal(before[name], after[name]) for name in before)
    with pytest.raises(OutputError, match="Read-only file system"):
        trained(tmp_path / "other", "data.view_seed=1", "model.project=null")


def test_features_of_images_too_large_to_be_seen_at_once_are_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check it with a bound of fewer pixels than these images have, in place of 8.4 megapixels."""
    trained(tmp_path / "usual", "data.base_size=160")
    monkeypatch.setattr("reconet.inference.protocol.BYTES_PER_PIXEL", 2**17)
    trained(tmp_path / "large", "data.base_size=160")
    scores = [load_trained(tmp_path / name).info.score["miou"] for name in ("usual", "large")]
    assert scores[0] == scores[1]
