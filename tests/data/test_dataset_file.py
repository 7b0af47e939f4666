"""One file describes a dataset, in YAML or JSON, and becomes settings of a recipe."""

import json
from pathlib import Path

import pytest

from reconet.data import open_split
from reconet.data.dataset_file import dataset_settings
from reconet.errors import ReconetError
from reconet.recipes import Recipe, apply_overrides, find_recipe
from reconet.system.reading import SETTINGS_BYTES
from tests.data.check.folders import Folder, several

TEXT = """\
root: pictures          # beside this file
title: My house
classes: [no, yes, 2024-01-01]
label_map: {0: no, 1: yes, 2-9: 2024-01-01, 255: ignore}
splits:
  train: first.txt
  val: second.txt
"""


def described(path: Path) -> Recipe:
    return apply_overrides(find_recipe("folder/frozen"), dataset_settings(path))


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = Folder(tmp_path / "pictures")
    folder.add_all(several((0, 1, 2, 255)))
    folder.write("first.txt", "a\nb\nc\nd\n")
    folder.write("second.txt", "e\nf\n")
    path = tmp_path / "mine.yaml"
    path.write_text(TEXT)
    return path


def test_a_file_becomes_settings_that_need_it_no_more(mine: Path) -> None:
    recipe = described(mine)
    mine.unlink()
    train, val = (open_split(recipe.data, split) for split in ("train", "val"))
    assert (len(train), len(val)) == (4, 2)
    assert train.info.classes == ("no", "yes", "2024-01-01"), "neither words of YAML nor dates"
    assert train.info.title == "My house"
    assert {int(label) for label in train[0].label_hw.ravel()} == {0, 1, 2, 255}


def test_json_says_the_same(mine: Path) -> None:
    values = {
        "root": "pictures",
        "title": "My house",
        "classes": ["no", "yes", "2024-01-01"],
        "label_map": {"0": "no", "1": "yes", "2-9": "2024-01-01", "255": "ignore"},
        "splits": {"train": "first.txt", "val": "second.txt"},
    }
    other = mine.with_suffix(".json")
    other.write_text(json.dumps(values))
    assert described(other) == described(mine)


def test_without_a_root_the_files_are_beside_the_description(tmp_path: Path) -> None:
    path = tmp_path / "mine.yml"
    path.write_text("classes: [a, b]\n")
    assert described(path).data.root == tmp_path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("classes: [a, b", "line 1: expected ',' or ']'"),
        ("root: x\nclasess: [a]", "line 2: unknown entry 'clasess'. Did you mean 'classes'?"),
        ("classes: [a]\nimages: &i b\nmasks: *i", "line 3: references"),
        ("classes: [a]\nclasses: [b]", "line 2: 'classes' is there more than once"),
        ("root: x\nclasses: [a, a]", "classes must be different names"),
        ("classes: [a]\n\nignore: 300", "line 3: ignore"),
        ("classes: [a]\nroot: [x]", "line 2: root must be a folder"),
        ("title: x", "classes: field required"),
        ("", "classes: field required"),
        ("[a, b]", "describes no dataset"),
        ("!!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("classes: !!binary aGk=", "cannot read"),
        ("a" + "[" * 5000, "mine.yaml"),
        ("#" * (SETTINGS_BYTES + 1), "that are read"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ReconetError) as caught:
        dataset_settings(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"classes": ["a"],\n "images": }', "line 2: Expecting value"),
        ('{"classes": ["a"], "classes": ["b"]}', "'classes' is there more than once"),
        ("[" * 100_000, "mine.json"),
    ],
)
def test_what_is_wrong_with_json_is_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(ReconetError) as caught:
        dataset_settings(path)
    assert message in str(caught.value)


def test_a_file_that_is_not_there_or_no_file_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(ReconetError, match=str(path)):
            dataset_settings(path)
