"""Options of datasets are typed and bounded, wherever they come from."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import reconet
from reconet.cli import main
from reconet.data import open_dataset, open_split
from reconet.data.dataset_file import dataset_settings
from reconet.engine import check_recipe
from reconet.errors import ReconetError
from reconet.models.trained import load_trained
from reconet.recipes import Recipe, apply_overrides, dump_recipe, find_recipe
from reconet.serve.about import DEFAULT_SIZE, ExampleImages
from reconet.system.reading import SETTINGS_BYTES
from tests.data.check.folders import Folder, several
from tests.factories import tiny_network, tiny_recipe

NESTED: Any = 1
for _ in range(300):
    NESTED = [NESTED]
NAN = float("nan")
SCENES: dict[str, dict[str, Any]] = {
    "huge": {"size": [100_000, 100_000]},
    "large": {"size": [20_000, 20_000]},
    "nothing": {"size": [0, 0]},
    "negative": {"size": [-64, 64]},
    "one": {"size": [5]},
    "letters": {"size": ["a", "b"]},
    "nan": {"size": [NAN, NAN]},
    "truth": {"train": True},
    "millions": {"train": 10**9},
    "none": {"val": 0},
    "seed": {"seed": -1},
    "long-seed": {"seed": 10**40},
    "part-of-a-seed": {"seed": 0.5},
    "list": {"seed": [0] * 30_000},
    "text": {"size": "9" * 1_000_000},
    "nested": {"size": NESTED},
    "another": {"sise": [64, 64]},
    "long-name": {"s" * 100_000: 1},
}
FOLDER: dict[str, dict[str, Any]] = {
    "no-class": {"classes": []},
    "numbers": {"classes": [1] * 30_000},
    "twice": {"classes": ["a", "a"]},
    "long-class": {"classes": ["a" * 100_000]},
    "nested": {"classes": NESTED},
    "ignores": {"classes": ["a"], "ignore": [255] * 1000},
    "nan": {"classes": ["a"], "val_fraction": NAN},
    "all": {"classes": ["a"], "val_fraction": 1},
    "digits": {"classes": ["a"], "label_map": {"9" * 4000: 0}},
    "splits": {"classes": ["a"], "splits": {str(n): "x.txt" for n in range(2000)}},
    "colours": {"classes": ["a"], "colours": {"a": [0, 0, 256]}},
    "no-text": {"classes": ["a"], "title": {"a": 1}},
}
CASES = [
    *(pytest.param("scenes", options, id=f"scenes-{name}") for name, options in SCENES.items()),
    *(pytest.param("folder", options, id=f"folder-{name}") for name, options in FOLDER.items()),
]


def in_one_line(call: Callable[[], object]) -> None:
    with pytest.raises(ReconetError) as raised:
        call()
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 5000, "a message that nobody can read"


def recipe_text(name: str, options: dict[str, Any]) -> str:
    """Write a recipe as a stranger may: nothing has checked it."""
    values = json.loads(dump_recipe(find_recipe("scenes/tiny")))
    values["data"] |= {"name": name, "options": options, "root": "/nowhere"}
    return json.dumps(values)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_hostile_options_are_refused_in_one_line_by_every_door(
    name: str, options: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    in_one_line(lambda: open_dataset(name, "val", tmp_path, options))
    (tmp_path / "run").mkdir()
    (tmp_path / "run/recipe.json").write_text(recipe_text(name, options))
    in_one_line(lambda: check_recipe(find_recipe(str(tmp_path / "run"))))
    settings = [f"data.name={name}", f"data.options={json.dumps(options)}"]
    in_one_line(lambda: reconet.train("scenes/tiny", tmp_path / "out", settings=settings))
    data = find_recipe("scenes/tiny").data.model_copy(update={"name": name, "options": options})
    copied = find_recipe("scenes/tiny").model_copy(update={"data": data})
    in_one_line(lambda: reconet.train(copied, tmp_path / "out"))
    words = [word for setting in settings for word in ("--set", setting)]
    assert main(["train", "scenes/tiny", f"--out={tmp_path / 'out'}", "--device=cpu", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [pytest.param(o, id=name) for name, o in FOLDER.items()])
@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_a_file_of_own_images_with_hostile_entries_is_named_in_one_line(
    suffix: str, options: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / f"mine{suffix}"
    path.write_text(json.dumps(options).replace("NaN", ".nan" if suffix == ".yaml" else "NaN"))
    with pytest.raises(ReconetError) as raised:
        dataset_settings(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("options", [pytest.param(o, id=name) for name, o in SCENES.items()])
def test_a_shared_network_with_hostile_options_is_refused_or_shown_with_usual_scenes(
    options: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = tiny_network(tiny_recipe("model.aux=false"))
    texts = network.info.texts() | {"recipe": recipe_text("scenes", options)}
    path = tmp_path / "shared.safetensors"
    save_file(network.model.state_dict(), path, texts)
    assert main(["evaluate", str(path), "--device=cpu"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    with suppress(ReconetError):  # more values than any recipe has
        info = load_trained(path).info
        assert ExampleImages(info).draw(0).shape == (*DEFAULT_SIZE, 3)


def test_long_metadata_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    texts = tiny_network().info.texts() | {"score": f'{{"miou": {"1" * 2**21}}}'}
    save_file({"w": torch.zeros(1)}, tmp_path / "a.safetensors", texts)
    in_one_line(lambda: load_trained(tmp_path / "a.safetensors"))


def test_many_entries_with_one_twice_are_refused_at_once(tmp_path: Path) -> None:
    # Looking for each name in all others took a minute and more.
    names = [f"k{number}" for number in range(30_000)]
    for suffix, lines in {
        ".yaml": [f"{name}: 1" for name in [*names, names[-1]]],
        ".json": ["{" + ",".join(f'"{name}":1' for name in [*names, names[-1]]) + "}"],
    }.items():
        path = tmp_path / f"mine{suffix}"
        path.write_text("\n".join(lines))
        with pytest.raises(ReconetError, match="more than once"):
            dataset_settings(path)


# One file describes a dataset, in YAML or JSON, and becomes settings of a recipe.

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
