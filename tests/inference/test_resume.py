"""A run of `reconet predict` resumes, and what is done is not done again."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from reconet import Prediction
from reconet.inference import folder as folder_module
from reconet.models import load_trained, save_trained
from tests.inference.helpers import ask_predict, read_tree, save_image

RECORD = "predictions.jsonl"


def test_a_second_run_skips_what_is_done_and_changed_images_are_done_again(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    paths = [save_image(tmp_path / "in" / f"{number}.png", number) for number in range(3)]
    arguments = (run, tmp_path / "in", "--out", tmp_path / "out", "--json")
    ask_predict(capsys, *arguments)
    before = read_tree(tmp_path / "out")
    assert ask_predict(capsys, *arguments)[1]["skipped"] == 3
    assert read_tree(tmp_path / "out") == before
    save_image(paths[1], 9)
    (tmp_path / "out" / "2.overlay.jpg").unlink()
    result = ask_predict(capsys, *arguments)[1]
    assert [one["status"] for one in result["images"]] == ["skipped", "done", "done"]
    assert read_tree(tmp_path / "out").keys() == before.keys()
    assert ask_predict(capsys, *arguments, "--probabilities")[1]["done"] == 3


def test_a_run_that_is_killed_resumes(
    capsys: pytest.CaptureFixture[str],
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in range(4):
        save_image(tmp_path / "in" / f"{number}.png", number)
    arguments = (run, tmp_path / "in", "--out", tmp_path / "out", "--json")
    lines = []

    def dies(path: Path, prediction: Prediction) -> None:
        lines.append((tmp_path / "out" / RECORD).read_text().count("\n"))
        if len(lines) == 3:
            raise KeyboardInterrupt  # after the line of the third and its mask
        write(path, prediction)

    write = folder_module.WRITERS["overlay"]
    monkeypatch.setitem(folder_module.WRITERS, "overlay", dies)
    assert ask_predict(capsys, *arguments)[0] == 130
    assert lines == [1, 2, 3], "an image is on record before its files are there"
    record = tmp_path / "out" / RECORD
    record.write_bytes(record.read_bytes() + b'{"format": 1, "sour')  # a line cut short
    for half in (".2.png.a1b2.part", ".2.overlay.jpg.c3d4.part", ".predictions.jsonl.e5.part"):
        (tmp_path / "out" / half).write_bytes(b"half")  # as a killed process leaves them
    monkeypatch.undo()
    code, result, _ = ask_predict(capsys, *arguments)
    assert (code, result["done"], result["skipped"]) == (0, 2, 2)
    assert set(read_tree(tmp_path / "out")) == {
        RECORD,
        *(f"{number}{end}" for number in range(4) for end in (".png", ".overlay.jpg")),
    }


def test_a_run_of_0_1_that_was_killed_resumes_from_its_journal(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    for number in range(3):
        save_image(tmp_path / "in" / f"{number}.png", number)
    arguments = (run, tmp_path / "in", "--out", tmp_path / "out", "--json")
    ask_predict(capsys, *arguments)
    before = read_tree(tmp_path / "out")
    first, second, third = (tmp_path / "out" / RECORD).read_text().splitlines(keepends=True)
    begun = json.dumps(json.loads(third) | {"run": "", "outputs": {}, "shares": {}}) + "\n"
    (tmp_path / "out" / RECORD).write_text(first)
    (tmp_path / "out" / "predictions.0a1b-0.part").write_text(second + begun)
    result = ask_predict(capsys, *arguments)[1]
    assert [one["status"] for one in result["images"]] == ["skipped", "skipped", "done"]
    assert read_tree(tmp_path / "out") == before


def test_another_network_or_other_settings_need_overwrite(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save_image(tmp_path / "in" / "a.png")
    arguments = (tmp_path / "in", "--out", tmp_path / "out", "--json")
    ask_predict(capsys, run, *arguments)
    code, _, err = ask_predict(capsys, run, *arguments, "--flip")
    assert (code, err.count("\n")) == (2, 1)
    assert "1 prediction of this network with other settings; " in err
    assert "--overwrite" in err
    trained = load_trained(run)
    other = tmp_path / "other.safetensors"
    save_trained(other, replace(trained, info=replace(trained.info, step=8)))
    code, _, err = ask_predict(capsys, other, *arguments)
    assert (code, f"1 prediction of another network ({run}), or with " in err) == (2, True)
    assert ask_predict(capsys, other, *arguments, "--overwrite")[1]["done"] == 1
    assert ask_predict(capsys, other, *arguments)[1]["skipped"] == 1
    moved = Path(shutil.copy(other, tmp_path / "same.safetensors"))
    assert ask_predict(capsys, moved, *arguments)[1]["skipped"] == 1, "the same network elsewhere"


def test_a_run_resumes_with_more_or_less_memory(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save_image(tmp_path / "in" / "a.png")
    arguments = (run, tmp_path / "in", "--out", tmp_path / "out", "--json", "--mode=whole")
    for memory, done in (("2GiB", 1), ("1GiB", 0), ("3GiB", 0)):
        result = ask_predict(capsys, *arguments, f"--memory={memory}")[1]
        assert (result["done"], result["skipped"]) == (done, 1 - done)


def test_records_of_images_survive_a_move_of_both_folders(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save_image(tmp_path / "old" / "in" / "a.png")
    ask_predict(capsys, run, tmp_path / "old" / "in", "--out", tmp_path / "old" / "out")
    (tmp_path / "old").rename(tmp_path / "new")
    new = tmp_path / "new"
    assert ask_predict(capsys, run, new / "in", "--out", new / "out", "--json")[1]["skipped"] == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stem": "../mine"}, "names files elsewhere"),
        ({"stem": 5}, "is no record of predictions"),
        ({"outputs": ["a.png"]}, "is no record of predictions"),
        ({"colour": "red"}, "is no record of predictions"),
        ({"format": 2}, "another version of reconet"),
    ],
)
def test_a_record_that_reconet_did_not_write_is_one_line(
    capsys: pytest.CaptureFixture[str],
    run: Path,
    tmp_path: Path,
    change: dict[str, object],
    message: str,
) -> None:
    save_image(tmp_path / "in" / "a.png")
    (tmp_path / "mine.png").write_text("of the user")
    line = {"format": 1, "source": "../in/a.png", "stem": "a", "outputs": {"labels": "a.png"}}
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / RECORD).write_text(json.dumps(line | change) + "\n")
    code, _, err = ask_predict(capsys, run, tmp_path / "in", "--out", tmp_path / "out")
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
    assert (tmp_path / "mine.png").read_text() == "of the user"


def test_a_record_makes_nobody_remove_a_file_that_reconet_did_not_write(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save_image(tmp_path / "in" / "a.png")
    arguments = (run, tmp_path / "in", "--out", tmp_path / "out", "--json")
    ask_predict(capsys, *arguments)
    (tmp_path / "mine.png").write_text("of the user")
    (tmp_path / "out" / "notes.txt").write_text("of the user")
    record = tmp_path / "out" / RECORD
    for name in ("../mine.png", "notes.txt"):
        record.write_text(record.read_text().replace("a.overlay.jpg", name))
        assert ask_predict(capsys, *arguments, "--overwrite")[0] == 2
        assert (tmp_path / "mine.png").is_file()
        assert (tmp_path / "out" / "notes.txt").is_file()
