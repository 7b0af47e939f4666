"""`reconet show`: every setting of a recipe, and whether its network builds."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from reconet.models.backbone import ResNet
from reconet.recipes import find_recipe
from tests.cli.run import run


def test_show_prints_every_setting_in_the_form_that_set_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run(capsys, "show", "scenes/tiny", "--set", "optim.lr=0.5")
    assert code == 0
    assert "optim.lr=0.5 " in out
    settings = [line.split("  #")[0].strip() for line in out.splitlines()]
    again = run(capsys, "show", "scenes/tiny", *(f"--set={setting}" for setting in settings))
    assert again[1] == out


def test_show_writes_a_recipe_that_can_be_named_instead(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "mine.json"
    run(capsys, "show", "scenes/tiny", "--set", "model.rank=7", "--out", str(path))
    assert find_recipe(str(path)).model.rank == 7
    code, out, _ = run(capsys, "show", str(path), "--json")
    assert code == 0
    assert json.loads(out)["model"]["rank"] == 7


def test_show_check_builds_the_network_and_loads_its_weights(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "w.safetensors"
    save_file(ResNet("resnet18", width=0.125).state_dict(), path)
    code, _, err = run(capsys, "show", "scenes/tiny", "--check", "--set", f"model.weights={path}")
    assert code == 0
    assert str(path) in err


def truncated(tmp_path: Path) -> str:
    path = tmp_path / "w.safetensors"
    save_file({"x": torch.zeros(100)}, path)
    path.write_bytes(path.read_bytes()[:60])
    return str(path)


def other_network(tmp_path: Path) -> str:
    path = tmp_path / "w.safetensors"
    save_file(ResNet("resnet34", width=0.125).state_dict(), path)
    return str(path)


@pytest.mark.parametrize("make", [truncated, other_network])
def test_a_weight_file_that_does_not_fit_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, make: object
) -> None:
    path = make(tmp_path)  # type: ignore[operator]
    code, _, err = run(capsys, "show", "scenes/tiny", "--check", "--set", f"model.weights={path}")
    assert code == 2
    assert err.count("\n") == 1
    assert path in err


def test_an_unwritable_file_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    target = tmp_path / "file" / "recipe.json"  # below a file, where no folder can be
    code, _, err = run(capsys, "show", "scenes/tiny", "--out", str(target))
    assert code == 2
    assert err.count("\n") == 1


CLASSES = '--set=data.options.classes=["road","roof"]'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scenes/tiny", "--set=model.backbone=resnet19"], "Did you mean 'resnet18'?"),
        (["scenes/tiny", "--set=model.context=recnet"], "Did you mean 'reconet'?"),
        (["scenes/tiny", "--set=model.options.ranks=3"], "unknown option of context 'reconet':"),
        (["scenes/tiny", "--set=data.name=voc"], "unknown dataset 'voc'"),
        (["scenes/tiny", "--set=data.val_split=vall"], "unknown split of scenes 'vall'"),
        (["scenes/tiny", "--set=data.views=2"], "set model.frozen=true"),
        (["scenes/tiny", "--set=train.steps=5", "--set=train.epochs=5"], "exclude each other"),
        (["folder/reconet", "--set=data.options.classes=[road,roof]"], "Texts need double quotes"),
        (["folder/reconet", "--set=data.options.classes=road"], "data.options.classes: "),
        (["folder/reconet", CLASSES, "--set=loss.class_weights=[1]"], "1 values for 2 classes"),
    ],
)
@pytest.mark.parametrize("verb", ["show", "train"])
def test_show_and_train_refuse_the_same_recipes_before_anything_is_opened(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    verb: str,
    arguments: list[str],
    message: str,
) -> None:
    out = [f"--out={tmp_path / 'run'}"] if verb == "train" else []
    code, _, err = run(capsys, verb, *arguments, *out)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
    assert not (tmp_path / "run").exists()


def test_a_recipe_that_still_lacks_its_classes_is_shown_with_a_note(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(capsys, "show", "folder/reconet")
    assert code == 0
    assert "data.name=folder" in out
    assert "note: not yet complete: data.options.classes: field required" in err
