"""Whole trainings: every recipe trains, and every error of a user is one line."""

import json
import math
import os
from pathlib import Path

import pytest
import torch

from reconet.engine import read_log
from reconet.recipes import RECIPES, find_recipe
from reconet.system import files
from tests.data.trees import OPTIONS, make_tree
from tests.launch import TINY_NETWORK, run_main


def one_recipe_per_dataset() -> list[object]:
    seen: set[str] = set()
    cases: list[object] = []
    heavy = ("/frozen", "/convnext")
    for name in sorted(RECIPES, key=lambda name: (any(word in name for word in heavy), name)):
        first = name.split("/")[0] not in seen
        seen.add(name.split("/")[0])
        cases.append(name if first else pytest.param(name, marks=pytest.mark.slow))
    return cases


@pytest.mark.parametrize("name", one_recipe_per_dataset())
def test_every_recipe_trains_on_a_tree_of_its_dataset(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = find_recipe(name).data.name
    make_tree(dataset, tmp_path / "data")
    options = [
        f"--set=data.options.{k}={json.dumps(v)}" for k, v in OPTIONS.get(dataset, {}).items()
    ]
    code, _, err = run_main(
        capsys,
        *("train", name, f"--set=data.root={tmp_path / 'data'}", f"--out={tmp_path / 'run'}"),
        *TINY_NETWORK,
        *options,
        *(["--set=model.project=8"] if find_recipe(name).model.project else []),
    )
    assert code == 0, err
    kinds = [line["kind"] for line in read_log(tmp_path / "run")]
    assert kinds == ["summary", "train", "val"]
    assert (tmp_path / "run" / "predictions.png").is_file()
    as_in_training = ["--mode=whole", "--relative-to=base_size", "--device=cpu", "--json"]
    code, out, _ = run_main(capsys, "evaluate", str(tmp_path / "run"), *as_in_training)
    assert code == 0
    last_val = read_log(tmp_path / "run")[-1]
    assert json.loads(out)["figures"]["miou"] == pytest.approx(last_val["miou"], abs=0.01)


@pytest.mark.parametrize(
    ("rate", "steps", "reason"),
    [
        (1e15, 4, "the loss is nan at step 1 with learning rate"),
        (math.nan, 1, "weights are not finite after step 0"),  # its loss is that of before the step
    ],
)
def test_a_network_that_diverged_is_neither_saved_nor_kept(
    rate: float,
    steps: int,
    reason: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reconet.engine.loop.learning_rate", lambda *_: rate)
    every = [
        f"--set=train.{name}_every={n}" for name, n in {"log": 10, "save": 3, "eval": 3}.items()
    ]
    words = ["train", "scenes/tiny", f"--out={tmp_path / 'run'}", f"--set=train.steps={steps}"]
    code, _, err = run_main(capsys, *words, *every, "--device=cpu")
    assert code == 2
    [line] = [line for line in err.splitlines() if line.startswith("reconet: ")]
    assert reason in line
    assert "Try a lower optim.lr" in line
    assert not (tmp_path / "run" / "best.safetensors").exists()
    last = torch.load(tmp_path / "run" / "last.pt", weights_only=True)
    assert last["step"] == 0  # as it began
    assert not [line for line in read_log(tmp_path / "run") if line["kind"] == "val"]


def test_a_crop_of_one_feature_trains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--set=data.crop=32", "--set=train.micro_batch=null"]
    code, _, err = run_main(
        capsys, "train", "scenes/tiny", f"--out={tmp_path / 'run'}", *TINY_NETWORK, *small
    )
    assert code == 0, err


def test_a_full_disk_keeps_the_last_good_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["train", "scenes/tiny", f"--out={tmp_path / 'run'}", *TINY_NETWORK]
    arguments += ["--set=train.steps=4", "--set=train.save_every=2", "--set=train.eval_every=100"]
    saves = 0
    real = files._write

    def fills_up(path: Path, write: object) -> None:
        nonlocal saves
        if path.name == "last.pt":
            saves += 1
            if saves == 2:
                raise OSError(28, "No space left on device")
        real(path, write)  # type: ignore[arg-type]

    monkeypatch.setattr(files, "_write", fills_up)
    code, _, err = run_main(capsys, *arguments)
    assert code == 2
    assert err.splitlines()[-1].endswith("last.pt: No space left on device.")
    monkeypatch.undo()
    code, _, err = run_main(capsys, *arguments, "--resume")
    assert code == 0, err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_place_is_said_before_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o500)
    code, _, err = run_main(
        capsys, "train", "scenes/tiny", f"--out={tmp_path / 'run'}", *TINY_NETWORK
    )
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set=optim.lr=0"], "optim.lr"),
        (["--set=data.root=/no", "--set=data.name=voc12", "--set=data.options={}"], "/no"),
        (["--set=data.name=voc13"], "Did you mean 'voc12'?"),
        (["--set=data.train_split=trian"], "Did you mean 'train'?"),
        (["--set=train.init_from=nowhere"], "nowhere"),
        (["--set=train.precision=fp16"], "needs a GPU"),
        (["--set=train.batch=3000"], "needs at least as many images"),
        (["--device=cuda:7"], "no device 'cuda:7'"),
        (["--out=/proc/nowhere/run"], "/proc/nowhere/run"),
    ],
)
def test_a_training_that_cannot_start_says_why_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run_main(
        capsys, "train", "scenes/tiny", f"--out={tmp_path / 'run'}", *TINY_NETWORK, *arguments
    )
    assert code == 2
    assert err.count("\n") == 1
    assert message in err
