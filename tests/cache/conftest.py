from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Write a folder dataset with two lists that share an image."""
    rng = np.random.default_rng(0)
    for folder in ("images", "masks"):
        (tmp_path / "data" / folder).mkdir(parents=True)
    for name in "abc":
        Image.fromarray(rng.integers(0, 256, (40, 56, 3), np.uint8)).save(
            tmp_path / f"data/images/{name}.png"
        )
        Image.fromarray(rng.integers(0, 2, (40, 56), np.uint8)).save(
            tmp_path / f"data/masks/{name}.png"
        )
    (tmp_path / "data/train.txt").write_text("a\nb\n")
    (tmp_path / "data/val.txt").write_text("b\nc\n")
    return tmp_path / "data"
