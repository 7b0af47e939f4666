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
