"""Which images are meant by folders and globs."""

import os
from pathlib import Path

import pytest

from reconet.inference.folder.find import find_images
from tests.inference.folder.helpers import ask_predict, save_image


def test_what_runs_have_written_is_no_image_to_predict(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save_image(tmp_path / "a.jpg")
    ask_predict(capsys, run, tmp_path, "--out", tmp_path / "out")
    assert find_images([str(tmp_path)]).paths == [tmp_path / "a.jpg"]
    assert find_images([f"{tmp_path}/**/*"]).paths == [tmp_path / "a.jpg"]


def test_folders_are_searched_below_without_hidden_files_and_loops(tmp_path: Path) -> None:
    for name in ("b.jpg", "a/z.PNG", "a/.hidden.png", ".git/x.png", "a/notes.txt", "@x.gif"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.png")
    found = find_images([str(tmp_path), str(tmp_path / "b.jpg")])
    assert [str(path.relative_to(tmp_path)) for path in found.paths] == [
        "@x.gif",
        "a/z.PNG",
        "b.jpg",
    ]
    assert found.root == tmp_path
