"""Run `reconet predict` on small images, and look at what it wrote."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pillow

from reconet.cli import main
from tests.factories import smooth_image


def save_image(
    path: Path, seed: int = 0, height: int = 30, width: int = 44, **options: Any
) -> Path:
    """Save a smooth image, and make the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Pillow.fromarray(smooth_image(seed, height, width)).save(path, **options)
    return path


def ask_predict(
    capsys: pytest.CaptureFixture[str], run: Path, *arguments: object
) -> tuple[int, dict[str, Any], str]:
    """Run `reconet predict`. Return its exit code, what it printed, and its errors."""
    code = main(["predict", str(run), *map(str, arguments), "--device=cpu", "--precision=fp32"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if "--json" in arguments and out else {"text": out}, err


def read_tree(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files below a folder, by their relative paths."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
