"""Options of datasets are typed and bounded, wherever they come from."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import reconet
from reconet.cli import main
from reconet.data import open_dataset
from reconet.data.dataset_file import dataset_settings
from reconet.data.scenes.dataset import LONGEST_SIDE
from reconet.engine.check import check_recipe
from reconet.errors import ReconetError
from reconet.export.sample_images import load_samples
from reconet.models.trained import load_trained
from reconet.recipes import dump_recipe, find_recipe
from reconet.serve.about import DEFAULT_SIZE, ExampleImages
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


def test_images_for_a_network_of_large_crops_are_drawn_at_most_at_the_largest_size() -> None:
    network = tiny_network()
    data = network.info.recipe.data.model_copy(update={"name": "elsewhere", "crop": (9, 30_000)})
    recipe = replace(network.info, recipe=network.info.recipe.model_copy(update={"data": data}))
    [image_hwc] = load_samples(recipe.recipe, "val", None, 1)
    assert image_hwc.shape == (9, LONGEST_SIDE, 3)
