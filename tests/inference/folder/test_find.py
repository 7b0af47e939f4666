"""Which images are meant by folders and globs."""

import os
from pathlib import Path

import pytest

from reconet.inference.folder.find import SUFFIXES, find_images
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


def test_files_that_are_no_images_are_counted_by_their_suffix(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save_image(tmp_path / "in" / "a.jpg")
    for name in ("b.RAW", "below/c.raw", "notes.txt", "LICENCE", ".hidden.raw"):
        (tmp_path / "in" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "in" / name).touch()
    found = find_images([str(tmp_path / "in")])
    assert found.untried == {".raw": 2, ".txt": 1, "no suffix": 1}
    code, _, err = ask_predict(capsys, run, tmp_path / "in", "--out", tmp_path / "in" / "out")
    assert code == 0
    assert "note: not tried, not the suffix of an image: 2 .raw, 1 no suffix, 1 .txt" in err
    assert find_images([str(tmp_path / "in")]).untried == found.untried  # not our own files


@pytest.mark.skipif(".avif" not in SUFFIXES, reason="this Pillow reads no AVIF")
def test_avif_is_read_where_pillow_can(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save_image(tmp_path / "in" / "a.avif")
    code, _, err = ask_predict(capsys, run, tmp_path / "in", "--out", tmp_path / "out")
    assert code == 0, err
    assert (tmp_path / "out" / "a.png").is_file()
