"""No name is given twice, no file of the user is overwritten, no file lies outside the folder."""

import os
from pathlib import Path

import pytest

from reconet.errors import OutputError
from reconet.inference.folder.find import find_images
from reconet.inference.folder.record import name_outputs, possible_files
from reconet.inference.folder.worker import path_inside
from tests.inference.folder.helpers import ask_predict, read_tree, save_image


def test_equal_names_keep_apart_and_nothing_of_the_user_is_overwritten(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    # The worst case: the output folder is the folder of the images.
    for name in ("a.jpg", "a.png", "a.tif", "sub/a.jpg"):
        save_image(tmp_path / name, len(name))
    (tmp_path / "sub" / "a.png").write_text("a mask by hand")
    before = read_tree(tmp_path)
    code, result, err = ask_predict(
        capsys, run, tmp_path / "a.jpg", tmp_path, "--out", tmp_path, "--json"
    )
    assert code == 1, err  # the mask is no image
    after = read_tree(tmp_path)
    assert {name: after[name] for name in before} == before
    written = [one["outputs"]["labels"] for one in result["images"] if one["status"] == "done"]
    assert written == ["a.jpg.png", "a.png.png", "a.tif.png", "sub/a.jpg.png"]
    again = ask_predict(capsys, run, tmp_path, "--out", tmp_path, "--json")[1]
    assert (again["done"], again["skipped"], again["failed"]) == (0, 4, 1)
    assert read_tree(tmp_path) == after


def test_names_cannot_leave_the_output_folder(
    capsys: pytest.CaptureFixture[str],
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = [
        save_image(tmp_path / "in" / "..a.png"),
        save_image(tmp_path / "in" / "...png", 1, format="PNG"),
        save_image(tmp_path / "in" / "new\nline \\..\\b.png", 2),
        save_image(tmp_path / "in" / f"{'x' * 240}.png", 3),
        save_image(tmp_path / "elsewhere" / "c.png", 4),
    ]
    odd = os.fsencode(tmp_path / "in") + b"/\xff.png"
    os.link(files[0], odd)
    (tmp_path / "in" / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "in" / "deep")
    out = tmp_path / "box" / "out"
    arguments = ["../..a.png", "../../elsewhere/c.png", *files[1:], os.fsdecode(odd)]
    before = set(read_tree(tmp_path))
    code, result, err = ask_predict(capsys, run, *arguments, "--out", out, "--json")
    assert (code, result["done"]) == (0, 6), err
    assert all(name.startswith("box/out/") for name in set(read_tree(tmp_path)) - before)
    assert len(read_tree(out)) == 6 * 2 + 1


def test_links_do_not_lead_out_of_the_output_folder(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save_image(tmp_path / "in" / "sub" / "a.jpg")
    save_image(tmp_path / "in" / "b.jpg")
    (tmp_path / "out").mkdir()
    (tmp_path / "away").mkdir()
    (tmp_path / "out" / "sub").symlink_to(tmp_path / "away")
    code, result, err = ask_predict(
        capsys, run, tmp_path / "in", "--out", tmp_path / "out", "--json"
    )
    assert (code, result["done"], result["failed"]) == (1, 1, 1)
    assert "a link leads out of" in err
    assert read_tree(tmp_path / "away") == {}
    (tmp_path / "out" / "file.png").symlink_to(tmp_path / "mine.png")
    with pytest.raises(OutputError, match="link"):
        path_inside(tmp_path / "out", "file.png")


def test_a_glob_is_placed_below_its_first_wildcard(tmp_path: Path) -> None:
    for name in ("shots/x/left.png", "shots/y/left.png", "shots/y/right.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = find_images([f"{tmp_path}/shots/*/left.png"])
    assert found.root == tmp_path / "shots"
    stems = name_outputs(found.paths, found.root, tmp_path / "out", {})
    assert list(stems.values()) == ["x/left", "y/left"]


def test_thousands_of_names_are_all_different_on_any_disk() -> None:
    root = Path("/in")
    names = ["a.jpg", "A.jpg", "a.png", "a.overlay.jpg", "a.jpg.png", "a.jpg~2.gif"]
    paths = [root / name for name in names] + [root / f"{n % 700}.{n}" for n in range(5000)]
    stems = name_outputs(paths, root, Path("/out"), {})
    files = [name.casefold() for stem in stems.values() for name in possible_files(stem)]
    assert len(set(files)) == len(files) == 4 * len(paths)
    assert stems[root / "a.jpg"] == "a"
    assert stems[root / "a.png"] == "a.png"
