"""`reconet predict`: the files that it writes, broken images, and what users get wrong."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from reconet.cli import main
from reconet.data.images.read import read_mask
from reconet.inference import FoundNetwork, Predictor, predict_folder
from reconet.inference.folder.predict import default_out
from reconet.inference.folder.record import RECORD
from tests.factories import ProgressRecorder
from tests.inference.folder.helpers import ask_predict, read_tree, save_image
from tests.launch import finish, start


def test_a_folder_becomes_labels_and_overlays_in_the_same_places(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save_image(tmp_path / "in" / "sub" / "street.jpg", 1)
    save_image(tmp_path / "in" / "b.png", 2, 20, 33)
    out = tmp_path / "out"
    code, result, err = ask_predict(
        capsys, run, tmp_path / "in", "--out", out, "--probabilities", "--json"
    )
    assert (code, err) == (0, "")
    endings = (".png", ".overlay.jpg", ".npz")
    assert set(read_tree(out)) == {
        RECORD,
        *(stem + ending for stem in ("b", "sub/street") for ending in endings),
    }
    alone = Predictor.from_run(run, device="cpu", precision="fp32")(
        tmp_path / "in" / "b.png", with_probabilities=True
    )
    assert np.array_equal(read_mask(out / "b.png"), alone.label_hw)
    assert Pillow.open(out / "b.png").getpalette()[3:6] == list(alone.palette[1])  # type: ignore[index]
    assert alone.probability_khw is not None
    with np.load(out / "b.npz") as saved:
        assert saved["probability_khw"].dtype == np.float16
        np.testing.assert_allclose(saved["probability_khw"], alone.probability_khw, atol=1e-3)
        assert tuple(saved["classes"]) == alone.classes
    first = result["images"][0]
    assert (first["status"], first["width"], first["height"]) == ("done", 33, 20)
    assert first["shares"] == pytest.approx(alone.shares())


def test_progress_starts_with_the_images_that_are_to_be_predicted(
    run: Path, tmp_path: Path
) -> None:
    for number in range(3):
        save_image(tmp_path / "in" / f"{number}.png", number)
    first, second = ProgressRecorder(), ProgressRecorder()
    for progress in (first, second):
        predict_folder(
            run, [str(tmp_path / "in")], tmp_path / "out", device="cpu", progress=progress
        )
    assert first.lines == ["start 3", *["advance 1"] * 3]
    assert second.lines == ["start 0"], "all images are done"


def test_broken_files_get_a_line_each_and_the_rest_is_done(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    save_image(folder / "good.jpg")
    save_image(folder / "renamed.bmp", format="PNG")
    save_image(folder / "moving.gif", save_all=True, append_images=[Pillow.new("RGB", (44, 30))])
    save_image(folder / "one.png", 0, 1, 1)
    save_image(folder / "wide.png", 0, 1, 20000)
    (folder / "empty.png").touch()
    (folder / "text.jpg").write_text("hello")
    (folder / "cut.jpg").write_bytes((folder / "good.jpg").read_bytes()[:-300])
    Pillow.new("1", (14000, 14000)).save(folder / "huge.png")
    (tmp_path / "list").write_text(f"{folder}/good.jpg\n\n{folder}/missing.jpg\n")
    out = tmp_path / "out"
    code, result, err = ask_predict(
        capsys, run, folder, f"@{tmp_path / 'list'}", "--out", out, "--json"
    )
    assert code == 1
    fates = {Path(one["source"]).name: one["status"] for one in result["images"]}
    failed = {"empty.png", "text.jpg", "cut.jpg", "huge.png", "missing.jpg"}
    assert {name for name, status in fates.items() if status == "failed"} == failed
    assert (result["done"], result["skipped"], result["failed"]) == (5, 0, 5)
    lines = err.splitlines()
    assert len(lines) == 6
    assert all(any(name in line for line in lines) for name in failed)
    assert sum("2 frames" in line and "moving.gif" in line for line in lines) == 1


def test_an_export_has_a_folder_of_its_own_beside_its_run(tmp_path: Path) -> None:
    run, file, export = (
        FoundNetwork(path=path)
        for path in (tmp_path, tmp_path / "best.safetensors", tmp_path / "model.onnx")
    )
    assert default_out(run) == default_out(file) == tmp_path / "predictions"
    assert default_out(export) == tmp_path / "predictions-model.onnx"


def test_where_and_how_stand_in_lines_of_their_own(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    for name in ("a.png", "b.png"):
        save_image(tmp_path / "in" / name)
    lines = ask_predict(capsys, run, tmp_path / "in", "--out", tmp_path / "out")[1][
        "text"
    ].splitlines()
    assert lines[0] == f"predictions in {tmp_path / 'out'}"
    assert lines[-3] == f"network: {run}, run as torch fp32, batch norm folded, channels last"
    assert lines[-2].startswith("protocol: ")
    assert lines[-1].startswith("time: ")


def test_one_process_and_two_write_the_same(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    for number in range(11):
        save_image(tmp_path / "in" / f"{number:02}.png", number, 30, 40 + number % 2)
    (tmp_path / "in" / "05.png").write_text("broken")
    code, one, _ = ask_predict(capsys, run, tmp_path / "in", "--out", tmp_path / "1", "--json")
    assert (code, one["done"], one["failed"]) == (1, 10, 1)
    arguments = ["reconet", "predict", str(run), str(tmp_path / "in"), "--json", "--device=cpu"]
    arguments += ["--precision=fp32", f"--out={tmp_path / '2'}"]
    code, out, err = finish(start(arguments, processes=2))
    assert code == 1, err
    assert json.loads(out)["images"] == one["images"]
    assert read_tree(tmp_path / "1") == read_tree(tmp_path / "2")


def test_probabilities_that_do_not_fit_are_refused_in_a_line(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save_image(tmp_path / "large.png", 0, 1500, 1500)
    arguments = (tmp_path / "large.png", "--out", tmp_path / "out", "--memory", "64MiB", "--json")
    code, result, err = ask_predict(capsys, run, *arguments, "--probabilities")
    assert (code, result["failed"]) == (1, 1)
    assert "its probabilities need" in err
    assert ask_predict(capsys, run, *arguments)[1]["done"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.jpg"], "no such file or folder: nowhere.jpg"),
        (["{empty}"], "no images"),
        (["{empty}/*.jpg"], "no image matches"),
        (["@{empty}/list"], "cannot read the list"),
        (["{good}", "--memory", "lots"], "--memory takes an amount"),
        (["{good}", "--memory", "1MB"], "at least 64MiB"),
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
    good = save_image(tmp_path / "good.png")
    filled = [word.format(empty=tmp_path / "empty", good=good) for word in arguments]
    code = main(["predict", str(run), *filled])
    err = capsys.readouterr().err
    assert (code, err.count("\n")) == (2, 1), err
    assert message in err
    assert not (run.parent / "predictions").exists()
