"""Which images are meant by folders and globs."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reconet.cli import main
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


def test_a_bad_entry_of_a_folder_fails_by_its_name_and_stops_nothing(
    capsys: pytest.CaptureFixture[str],
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    for name in ("a.png", "z.png"):
        save_image(folder / name)
    for name in ("itself.png", "itself"):
        (folder / name).symlink_to(name)
    (folder / "nowhere.png").symlink_to("gone")
    (folder / "locked").mkdir()
    real = os.scandir

    def scandir(path: Any = ".") -> Any:
        if Path(path).name == "locked":  # root may read any folder
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    code, result, err = ask_predict(capsys, run, folder, "--out", out, "--json")
    assert (code, result["done"], result["failed"]) == (1, 2, 3)
    assert f"{folder}/itself.png: too many levels of symbolic links" in err
    assert f"{folder}/nowhere.png: no such file" in err
    assert f"{folder}/locked: the folder cannot be listed" in err
    assert "Traceback" not in err


def test_folders_may_be_deeper_than_python_likes_to_recurse(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save_image(tmp_path / "a.png")
    folder, here = tmp_path / "in", os.getcwd()
    folder.mkdir()
    shutil.copy(tmp_path / "a.png", folder)
    try:
        os.chdir(folder)
        for _ in range(1100):
            os.mkdir("d")
            os.chdir("d")
        shutil.copy(tmp_path / "a.png", "b.png")
    finally:
        os.chdir(here)
    code, result, err = ask_predict(capsys, run, folder, "--out", tmp_path / "out", "--json")
    assert (code, result["done"]) == (0, 2), err
    assert main(["predict", str(run), f"{folder}/**/*.png", "--device=cpu"]) == 2
    assert "nest too deeply for a pattern" in capsys.readouterr().err
    subprocess.run(["rm", "-r", str(folder), str(tmp_path / "out")], check=True)
