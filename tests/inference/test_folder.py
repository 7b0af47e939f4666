"""`reconet predict`: which images, the files that it writes, broken images, wrong words."""

import inspect
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from reconet import Predictor
from reconet.cli import main
from reconet.data.classes import colour_map
from reconet.inference import predict_folder
from reconet.inference.plan import find_images
from reconet.models.trained import load_trained, save_trained
from reconet.types import IGNORE
from tests.factories import ProgressRecorder, tiny_network
from tests.inference.helpers import ask_predict, read_tree, save_image
from tests.launch import finish, start

RECORD = "predictions.jsonl"


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
    assert np.array_equal(np.array(Pillow.open(out / "b.png")), alone.label_hw)
    assert Pillow.open(out / "b.png").getpalette()[3:6] == list(alone.palette[1])  # type: ignore[index]
    assert alone.probability_khw is not None
    with np.load(out / "b.npz") as saved:
        assert saved["probability_khw"].dtype == np.float16
        np.testing.assert_allclose(saved["probability_khw"], alone.probability_khw, atol=1e-3)
        assert tuple(saved["classes"]) == alone.classes
    first = result["images"][0]
    assert (first["status"], first["width"], first["height"]) == ("done", 33, 20)
    assert first["shares"] == pytest.approx(alone.shares())


def test_confidences_are_written_at_the_temperature_of_the_network(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save_image(tmp_path / "a.jpg", 1)
    calibrated, temperature = tmp_path / "net.safetensors", 3.0
    trained = load_trained(run)
    save_trained(calibrated, replace(trained, info=replace(trained.info, temperature=temperature)))
    probability_khw = Predictor.from_run(run, device="cpu")(
        tmp_path / "a.jpg", with_probabilities=True
    ).probability_khw
    assert probability_khw is not None
    labels = []
    for network, power in ((run, 1.0), (calibrated, 1 / temperature)):
        out = tmp_path / f"out-{power}"
        code, result, _ = ask_predict(
            capsys, network, tmp_path / "a.jpg", "--out", out, "--confidence", "--json"
        )
        assert code == 0
        raised_khw = probability_khw**power
        expected_hw = 255 * raised_khw.max(0) / raised_khw.sum(0)
        found_hw = np.array(Pillow.open(out / "a.confidence.png"))
        assert np.abs(found_hw - expected_hw).max() < 1
        summary = result["images"][0]["confidence"]
        assert summary["mean"] == pytest.approx(expected_hw.mean() / 255, abs=0.01)
        assert summary["lowest_decile"] == pytest.approx(
            np.percentile(expected_hw, 10) / 255, abs=0.01
        )
        assert json.loads((out / RECORD).read_text())["confidence"] == summary
        labels.append((out / "a.png").read_bytes())
    assert labels[0] == labels[1]


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


def test_images_are_searched_below_without_hidden_files_loops_and_what_runs_have_written(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    for name in ("b.jpg", "a/z.PNG", "a/.hidden.png", ".git/x.png", "@x.gif"):
        save_image(folder / name)
    for name in ("b.RAW", "a/c.raw", "notes.txt", "LICENCE", ".hidden.raw"):
        (folder / name).touch()
    (folder / "a" / "loop").symlink_to(folder)
    expected = [str(folder / name) for name in ("@x.gif", "a/z.PNG", "b.jpg")]
    for _ in range(2):
        arguments = (folder, folder / "b.jpg", "--out", folder / "out", "--json")
        code, result, err = ask_predict(capsys, run, *arguments)
        assert code == 0
        assert [image["source"] for image in result["images"]] == expected
        assert "note: not tried, not the suffix of an image: 2 .raw, 1 no suffix, 1 .txt" in err
    (folder / "a" / "loop").unlink()  # a pattern follows links wherever they lead
    result = ask_predict(capsys, run, f"{folder}/**/*", "--out", tmp_path / "out", "--json")[1]
    assert {image["source"] for image in result["images"]} == set(expected)


def test_a_folder_may_nest_deeper_than_python_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path
    for _ in range(150):
        place /= "d"
        place.mkdir()
    image, limit = save_image(place / "a.png"), sys.getrecursionlimit()
    frames = len(inspect.stack(0))
    sys.setrecursionlimit(frames + 100)
    try:
        found = find_images([str(tmp_path)]).paths
    finally:
        sys.setrecursionlimit(limit)
    assert found == [image]


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
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    code, result, err = ask_predict(capsys, run, folder, "--out", out, "--json")
    assert (code, result["done"], result["failed"]) == (1, 2, 3)
    assert f"{folder}/itself.png: too many levels of symbolic links" in err
    assert f"{folder}/nowhere.png: no such file" in err
    assert f"{folder}/locked: the folder cannot be listed" in err
    assert "Traceback" not in err


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


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a network with a background and three other classes."""
    path = tmp_path_factory.mktemp("named") / "net.safetensors"
    names = ("background", "person", "dog", "sofa")
    save_trained(path, tiny_network(classes=names, palette=colour_map(4), decided=True))
    return path


def test_a_folder_gets_a_table_of_its_classes_and_a_gallery(
    capsys: pytest.CaptureFixture[str], named: Path, tmp_path: Path
) -> None:
    for number, name in enumerate(("a", "b & <i>c#1")):
        save_image(tmp_path / "in" / f"{name}.png", number, 30 + 20 * number)
    out = tmp_path / "out"
    words: tuple[object, ...] = (tmp_path / "in", "--out", out, "--gallery")
    code, result, err = ask_predict(capsys, named, *words, "--json")
    assert (code, err) == (0, "")
    labels = [np.array(Pillow.open(out / f"{n}.png")).ravel() for n in ("a", "b & <i>c#1")]
    pixels = np.bincount(np.concatenate(labels), minlength=4)
    assert len(result["classes"]) == np.count_nonzero(pixels) > 1
    for number, name in enumerate(("background", "person", "dog", "sofa")):
        if pixels[number]:
            share = pytest.approx(pixels[number] / pixels.sum())
            count = sum(bool((one == number).any()) for one in labels)
            assert result["classes"][name] == {"share": share, "images": count}
    page = (out / "gallery.html").read_text()
    assert page.count("<figure>") == page.count("data:image/jpeg;base64,") == 2
    assert 'href="b%20%26%20%3Ci%3Ec%231.overlay.jpg"' in page
    assert "<i>" not in page
    text = ask_predict(capsys, named, *words)[1]["text"]  # again: all is done before
    assert "% of all pixels" in text
    assert "protocol: " not in text
    assert (
        f"protocol: {result['protocol']}"
        in ask_predict(capsys, named, *words, "--verbose")[1]["text"]
    )
    (out / "gallery.html").write_text("mine")
    assert ask_predict(capsys, named, *words)[0] == 2
    assert (out / "gallery.html").read_text() == "mine"


def test_only_the_classes_that_are_named_stay(
    capsys: pytest.CaptureFixture[str], named: Path, run: Path, tmp_path: Path
) -> None:
    save_image(tmp_path / "in" / "a.png", 3)
    everything, some = tmp_path / "all", tmp_path / "some"
    ask_predict(capsys, named, tmp_path / "in", "--out", everything)
    label_hw = np.array(Pillow.open(everything / "a.png"))
    names = ("background", "person", "dog", "sofa")
    kept = int(np.bincount(label_hw.ravel())[1:].argmax()) + 1
    words = (tmp_path / "in", "--out", some, "--classes", names[kept], "--json")
    code, result, err = ask_predict(capsys, named, *words)
    assert (code, err) == (0, "")
    kept_hw = np.array(Pillow.open(some / "a.png"))
    assert (kept_hw == np.where(label_hw == kept, kept, 0)).all()
    assert set(result["classes"]) <= {"background", names[kept]}
    code, _, err = ask_predict(capsys, named, tmp_path / "in", "--out", some)
    assert (code, "with other settings" in err) == (2, True)
    code, _, err = ask_predict(capsys, named, tmp_path / "in", "--classes", "persn")
    assert (code, "'person'" in err) == (2, True)
    predictor = Predictor.from_run(run, device="cpu", precision="fp32")  # without a background
    before = predictor(tmp_path / "in" / "a.png")
    most = int(np.bincount(before.label_hw.ravel()).argmax())
    predictor.keep_classes([predictor.classes[most]])
    after = predictor(tmp_path / "in" / "a.png")
    assert (after.label_hw == np.where(before.label_hw == most, most, IGNORE)).all()
    assert set(after.shares()) == {predictor.classes[most]}
