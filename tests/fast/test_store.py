"""The folder of a choice appears in one move, and replaces what is outdated."""

import os
from pathlib import Path

import pytest

from reconet.errors import OutputError
from reconet.fast.store import keep, staged_folder
from reconet.inference.fast import CHOICE, FastChoice
from reconet.inference.fast.choice import read_choice

CHOSEN = FastChoice(way="exported", text="it", machine="m")


def made_file(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in ("openvino.bin", "openvino.xml", "int8-0.xml"):
        (folder / name).write_text(name)
    return folder / "openvino.xml"


def test_only_the_chosen_files_are_kept(tmp_path: Path) -> None:
    home = tmp_path / "run" / "fast" / ("a" * 20)
    kept = keep(CHOSEN, made_file(tmp_path / "made"), home)
    assert sorted(path.name for path in home.iterdir()) == [CHOICE, "network.bin", "network.xml"]
    found = read_choice(home)
    assert found is not None
    assert found.choice == kept
    assert found.path.read_text() == "openvino.xml"


def test_a_killed_move_leaves_nothing_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "fast" / ("a" * 20)

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", kill)
    with pytest.raises(KeyboardInterrupt):
        keep(CHOSEN, made_file(tmp_path / "made"), home)
    assert read_choice(home) is None


def test_a_run_forgets_its_earlier_weights_on_this_machine_alone(tmp_path: Path) -> None:
    place = tmp_path / "run" / "fast"
    other = CHOSEN.model_copy(update={"machine": "another"})
    keep(other, None, place / ("o" * 20))
    keep(CHOSEN, None, place / ("a" * 20))
    keep(CHOSEN, None, place / ("b" * 20))
    assert {path.name for path in place.iterdir()} == {"o" * 20, "b" * 20}


def test_a_staged_folder_is_removed_after_an_error(tmp_path: Path) -> None:
    def fail() -> None:
        with staged_folder(tmp_path / "fast" / "a") as folder:
            (folder / "half").write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match="No space"):
        fail()
    assert not list((tmp_path / "fast").iterdir())
