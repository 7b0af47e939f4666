"""`reconet predict`: nothing lost, nothing overwritten, nothing outside the output folder."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from reconet.cli import main
from reconet.data.images.read import read_index, write_index
from reconet.errors import OutputError
from reconet.inference.folder.find import find_images
from reconet.inference.folder.names import files_of, name_outputs
from reconet.inference.folder.record import RECORD, read_record
from reconet.inference.folder.run import default_out
from reconet.inference.folder.write import inside, write_outputs
from reconet.inference.predictor import Predictor
from tests.engine.launch import finish, start
from tests.evaluation.test_evaluate import trained_on
from tests.inference.test_predictor import random_image


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    return trained_on("scenes", tmp_path_factory.mktemp("run"))[0]


def save(path: Path, seed: int = 0, height: int = 30, width: int = 44, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Pillow.fromarray(random_image(seed, height, width)).save(path, **options)
    return path


def ask(
    capsys: pytest.CaptureFixture[str], run: Path, *arguments: object
) -> tuple[int, dict[str, Any], str]:
    code = main(["predict", str(run), *map(str, arguments), "--device=cpu", "--precision=fp32"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if "--json" in arguments and out else {"text": out}, err


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_folder_becomes_labels_and_overlays_in_the_same_places(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save(tmp_path / "in" / "sub" / "street.jpg", 1)
    save(tmp_path / "in" / "b.png", 2, 20, 33)
    out = tmp_path / "out"
    code, said, err = ask(capsys, run, tmp_path / "in", "--out", out, "--probabilities", "--json")
    assert (code, err) == (0, "")
    endings = (".png", ".overlay.jpg", ".npz")
    assert set(tree(out)) == {
        RECORD,
        *(stem + ending for stem in ("b", "sub/street") for ending in endings),
    }
    alone = Predictor.from_run(run, device="cpu", precision="fp32")(
        tmp_path / "in" / "b.png", with_probabilities=True
    )
    assert np.array_equal(read_index(out / "b.png"), alone.label_hw)
    assert Pillow.open(out / "b.png").getpalette()[3:6] == list(alone.palette[1])  # type: ignore[index]
    assert alone.probability_khw is not None
    with np.load(out / "b.npz") as saved:
        assert saved["probability_khw"].dtype == np.float16
        np.testing.assert_allclose(saved["probability_khw"], alone.probability_khw, atol=1e-3)
        assert tuple(saved["classes"]) == alone.classes
    first = said["images"][0]
    assert (first["status"], first["width"], first["height"]) == ("done", 33, 20)
    assert first["shares"] == pytest.approx(alone.shares())


def test_broken_files_get_a_line_each_and_the_rest_is_done(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    save(folder / "good.jpg")
    save(folder / "renamed.bmp", format="PNG")
    save(folder / "moving.gif", save_all=True, append_images=[Pillow.new("RGB", (44, 30))])
    save(folder / "one.png", 0, 1, 1)
    save(folder / "wide.png", 0, 1, 20000)
    (folder / "empty.png").touch()
    (folder / "text.jpg").write_text("hello")
    (folder / "cut.jpg").write_bytes((folder / "good.jpg").read_bytes()[:-300])
    Pillow.new("1", (14000, 14000)).save(folder / "huge.png")
    (tmp_path / "list").write_text(f"{folder}/good.jpg\n\n{folder}/missing.jpg\n")
    out = tmp_path / "out"
    code, said, err = ask(capsys, run, folder, f"@{tmp_path / 'list'}", "--out", out, "--json")
    assert code == 1
    fates = {Path(one["source"]).name: one["status"] for one in said["images"]}
    failed = {"empty.png", "text.jpg", "cut.jpg", "huge.png", "missing.jpg"}
    assert {name for name, status in fates.items() if status == "failed"} == failed
    assert (said["done"], said["skipped"], said["failed"]) == (5, 0, 5)
    lines = err.splitlines()
    assert len(lines) == 6
    assert all(any(name in line for line in lines) for name in failed)
    assert sum("2 frames" in line and "moving.gif" in line for line in lines) == 1


def test_a_second_run_skips_what_is_done_and_changed_images_are_done_again(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    paths = [save(tmp_path / "in" / f"{number}.png", number) for number in range(3)]
    arguments = (run, tmp_path / "in", "--out", tmp_path / "out", "--json")
    ask(capsys, *arguments)
    before = tree(tmp_path / "out")
    assert ask(capsys, *arguments)[1]["skipped"] == 3
    assert tree(tmp_path / "out") == before
    save(paths[1], 9)
    (tmp_path / "out" / "2.overlay.jpg").unlink()
    said = ask(capsys, *arguments)[1]
    assert [one["status"] for one in said["images"]] == ["skipped", "done", "done"]
    assert tree(tmp_path / "out").keys() == before.keys()
    assert ask(capsys, *arguments, "--probabilities")[1]["done"] == 3


def test_a_run_that_is_killed_goes_on(
    capsys: pytest.CaptureFixture[str],
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in range(4):
        save(tmp_path / "in" / f"{number}.png", number)
    arguments = (run, tmp_path / "in", "--out", tmp_path / "out", "--json")
    calls = []

    def dies(*given: Any) -> dict[str, str]:
        calls.append(given)
        outputs = write_outputs(*given)
        if len(calls) == 3:
            raise KeyboardInterrupt  # after the files of the third, before its line
        return outputs

    monkeypatch.setattr("reconet.inference.folder.worker.write_outputs", dies)
    assert ask(capsys, *arguments)[0] == 130
    journal = next((tmp_path / "out").glob("predictions.*.part"))
    journal.write_bytes(journal.read_bytes() + b'{"format": 1, "sour')  # a line cut short
    monkeypatch.undo()
    code, said, _ = ask(capsys, *arguments)
    assert (code, said["done"], said["skipped"]) == (0, 2, 2)
    assert set(tree(tmp_path / "out")) == {
        RECORD,
        *(f"{number}{end}" for number in range(4) for end in (".png", ".overlay.jpg")),
    }


def test_another_network_or_other_settings_need_overwrite(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save(tmp_path / "in" / "a.png")
    arguments = (tmp_path / "in", "--out", tmp_path / "out", "--json")
    ask(capsys, run, *arguments)
    code, _, err = ask(capsys, run, *arguments, "--flip")
    assert (code, err.count("\n")) == (2, 1)
    assert "1 prediction of this network with other settings; " in err
    assert "--overwrite" in err
    other = trained_on("scenes", tmp_path / "other")[0]
    code, _, err = ask(capsys, other, *arguments)
    assert (code, f"1 prediction of another network ({run}); " in err) == (2, True)
    assert f"another network ({run}), with other" in ask(capsys, other, *arguments, "--flip")[2]
    assert ask(capsys, other, *arguments, "--overwrite")[1]["done"] == 1
    assert ask(capsys, other, *arguments)[1]["skipped"] == 1
    moved = Path(shutil.copy(other, tmp_path / "same.safetensors"))
    assert ask(capsys, moved, *arguments)[1]["skipped"] == 1, "the same network elsewhere"


def test_an_export_has_a_folder_of_its_own_beside_its_run(tmp_path: Path) -> None:
    assert default_out(tmp_path) == tmp_path / "predictions"
    assert default_out(tmp_path / "best.safetensors") == tmp_path / "predictions"
    assert default_out(tmp_path / "model.onnx") == tmp_path / "predictions-model.onnx"


def test_label_files_have_eight_bits_a_pixel_however_few_the_classes(tmp_path: Path) -> None:
    label_hw = np.array([[0, 1, 1], [1, 0, 1]], np.uint8)
    write_index(tmp_path / "a.png", label_hw, ((0, 0, 0), (9, 8, 7)))
    header = (tmp_path / "a.png").read_bytes()[16:26]
    assert (header[8], header[9]) == (8, 3)  # bits, and the kind: a palette
    assert np.array_equal(read_index(tmp_path / "a.png"), label_hw)


def test_where_and_how_stand_in_lines_of_their_own(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save(tmp_path / "a.png")
    lines = ask(capsys, run, tmp_path / "a.png", "--out", tmp_path / "out")[1]["text"].splitlines()
    assert lines[0] == f"predictions in {tmp_path / 'out'}"
    assert lines[-2].startswith("protocol: ")
    assert lines[-1] == "network run as: torch fp32, batch norm folded, channels last"


def test_equal_names_keep_apart_and_nothing_of_the_user_is_overwritten(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    """The worst case: the output folder is the folder of the images."""
    for name in ("a.jpg", "a.png", "a.tif", "sub/a.jpg"):
        save(tmp_path / name, len(name))
    (tmp_path / "sub" / "a.png").write_text("a mask by hand")
    before = tree(tmp_path)
    code, said, err = ask(capsys, run, tmp_path / "a.jpg", tmp_path, "--out", tmp_path, "--json")
    assert code == 1, err  # the mask is no image
    after = tree(tmp_path)
    assert {name: after[name] for name in before} == before
    written = [one["outputs"]["labels"] for one in said["images"] if one["status"] == "done"]
    assert written == ["a.jpg.png", "a.png.png", "a.tif.png", "sub/a.jpg.png"]
    again = ask(capsys, run, tmp_path, "--out", tmp_path, "--json")[1]
    assert (again["done"], again["skipped"], again["failed"]) == (0, 4, 1)
    assert tree(tmp_path) == after


def test_what_runs_have_written_is_no_image_to_predict(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save(tmp_path / "a.jpg")
    ask(capsys, run, tmp_path, "--out", tmp_path / "out")
    assert find_images([str(tmp_path)]).images == [tmp_path / "a.jpg"]
    assert find_images([f"{tmp_path}/**/*"]).images == [tmp_path / "a.jpg"]


def test_names_cannot_leave_the_output_folder(
    capsys: pytest.CaptureFixture[str],
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = [
        save(tmp_path / "in" / "..a.png"),
        save(tmp_path / "in" / "...png", 1, format="PNG"),
        save(tmp_path / "in" / "new\nline \\..\\b.png", 2),
        save(tmp_path / "in" / f"{'x' * 240}.png", 3),
        save(tmp_path / "elsewhere" / "c.png", 4),
    ]
    odd = os.fsencode(tmp_path / "in") + b"/\xff.png"
    os.link(files[0], odd)
    (tmp_path / "in" / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "in" / "deep")
    out = tmp_path / "box" / "out"
    arguments = ["../..a.png", "../../elsewhere/c.png", *files[1:], os.fsdecode(odd)]
    before = set(tree(tmp_path))
    code, said, err = ask(capsys, run, *arguments, "--out", out, "--json")
    assert (code, said["done"]) == (0, 6), err
    assert all(name.startswith("box/out/") for name in set(tree(tmp_path)) - before)
    assert len(tree(out)) == 6 * 2 + 1


def test_links_do_not_lead_out_of_the_output_folder(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save(tmp_path / "in" / "sub" / "a.jpg")
    save(tmp_path / "in" / "b.jpg")
    (tmp_path / "out").mkdir()
    (tmp_path / "away").mkdir()
    (tmp_path / "out" / "sub").symlink_to(tmp_path / "away")
    code, said, err = ask(capsys, run, tmp_path / "in", "--out", tmp_path / "out", "--json")
    assert (code, said["done"], said["failed"]) == (1, 1, 1)
    assert "a link leads out of" in err
    assert tree(tmp_path / "away") == {}
    (tmp_path / "out" / "file.png").symlink_to(tmp_path / "mine.png")
    with pytest.raises(OutputError, match="link"):
        inside(tmp_path / "out", "file.png")


def test_folders_are_searched_below_without_hidden_files_and_loops(tmp_path: Path) -> None:
    for name in ("b.jpg", "a/z.PNG", "a/.hidden.png", ".git/x.png", "a/notes.txt", "@x.gif"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.png")
    found = find_images([str(tmp_path), str(tmp_path / "b.jpg")])
    assert [str(path.relative_to(tmp_path)) for path in found.images] == [
        "@x.gif",
        "a/z.PNG",
        "b.jpg",
    ]
    assert found.root == tmp_path


def test_a_glob_is_placed_below_its_first_wildcard(tmp_path: Path) -> None:
    for name in ("shots/x/left.png", "shots/y/left.png", "shots/y/right.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = find_images([f"{tmp_path}/shots/*/left.png"])
    assert found.root == tmp_path / "shots"
    stems = name_outputs(found.images, found.root, {}, lambda name: False)
    assert list(stems.values()) == ["x/left", "y/left"]


def test_thousands_of_names_are_all_different_on_any_disk() -> None:
    root = Path("/in")
    names = ["a.jpg", "A.jpg", "a.png", "a.overlay.jpg", "a.jpg.png", "a.jpg~2.gif"]
    paths = [root / name for name in names] + [root / f"{n % 700}.{n}" for n in range(5000)]
    stems = name_outputs(paths, root, {}, lambda name: False)
    files = [name.casefold() for stem in stems.values() for name in files_of(stem)]
    assert len(set(files)) == len(files) == 4 * len(paths)
    assert stems[root / "a.jpg"] == "a"
    assert stems[root / "a.png"] == "a.png"


def test_one_process_and_two_write_the_same(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    for number in range(11):
        save(tmp_path / "in" / f"{number:02}.png", number, 30, 40 + number % 2)
    (tmp_path / "in" / "05.png").write_text("broken")
    code, one, _ = ask(capsys, run, tmp_path / "in", "--out", tmp_path / "1", "--json")
    assert (code, one["done"], one["failed"]) == (1, 10, 1)
    arguments = ["reconet", "predict", str(run), str(tmp_path / "in"), "--json", "--device=cpu"]
    arguments += ["--precision=fp32", f"--out={tmp_path / '2'}"]
    code, out, err = finish(start(arguments, processes=2))
    assert code == 1, err
    assert json.loads(out)["images"] == one["images"]
    assert tree(tmp_path / "1") == tree(tmp_path / "2")


def test_probabilities_that_do_not_fit_are_refused_in_a_line(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save(tmp_path / "large.png", 0, 1500, 1500)
    arguments = (tmp_path / "large.png", "--out", tmp_path / "out", "--memory", "64MiB", "--json")
    code, said, err = ask(capsys, run, *arguments, "--probabilities")
    assert (code, said["failed"]) == (1, 1)
    assert "its probabilities need" in err
    assert ask(capsys, run, *arguments)[1]["done"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.jpg"], "no such file or folder: nowhere.jpg"),
        (["{empty}"], "no images"),
        (["{empty}/*.jpg"], "no image matches"),
        (["@{empty}/list"], "cannot read the list"),
        (["{good}", "--memory", "lots"], "--memory takes an amount"),
        (["{good}", "--memory", "1MB"], "at least 67,108,864"),
        (["{good}", "--scales", "a"], "--scales takes numbers"),
        (["{good}", "--precision", "bf61"], "Did you mean 'bf16'"),
        (["{good}", "--out", "{good}"], "--out names a folder; "),
        (["{good}", "--out", "{good}/a/b"], "good.png is a file"),
        ([], "Missing argument"),
    ],
)
def test_what_users_get_wrong_is_one_line(
    capsys: pytest.CaptureFixture[str],
    run: Path,
    tmp_path: Path,
    arguments: list[str],
    message: str,
) -> None:
    (tmp_path / "empty").mkdir()
    good = save(tmp_path / "good.png")
    filled = [word.format(empty=tmp_path / "empty", good=good) for word in arguments]
    code = main(["predict", str(run), *filled])
    err = capsys.readouterr().err
    assert (code, err.count("\n")) == (2, 1), err
    assert message in err
    assert not (run.parent / "predictions").exists()


def test_records_of_images_survive_a_move_of_both_folders(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save(tmp_path / "old" / "in" / "a.png")
    ask(capsys, run, tmp_path / "old" / "in", "--out", tmp_path / "old" / "out")
    (tmp_path / "old").rename(tmp_path / "new")
    new = tmp_path / "new"
    assert ask(capsys, run, new / "in", "--out", new / "out", "--json")[1]["skipped"] == 1
    assert list(read_record(new / "out")) == ["../in/a.png"]
