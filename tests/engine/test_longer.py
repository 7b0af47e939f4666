"""The start summary, longer trainings, and trainings that end when the score stays the same."""

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from reconet.engine import Inputs, TrainingRun, Validation, read_log, run_training
from reconet.engine import train as start_training
from reconet.errors import TrainingError
from reconet.recipes import read_recipe
from tests.factories import ProgressRecorder, tiny_recipe
from tests.launch import assert_same, last, weights

SMALL = ("data.options.train=8", "data.options.val=2", "train.eval_every=2", "train.log_every=2")


def train(directory: Path, *settings: str, resume: bool = False) -> tuple[Any, list[str]]:
    """Train a tiny recipe. Return the result and what was said."""
    heard = ProgressRecorder()
    recipe = tiny_recipe(*SMALL, *settings)
    result = run_training(recipe, directory, resume=resume, device="cpu", progress=heard)
    return result, heard.lines


def kinds(directory: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in read_log(directory) if line["kind"] == kind]


def test_a_training_begins_with_what_it_will_do(tmp_path: Path) -> None:
    _, lines = train(tmp_path, "train.steps=2")
    assert "data: scenes, 8 images to train, 2 to validate, 14 classes" in lines
    assert any(
        x.startswith("network: reconet on resnet18, 0.19 M parameters, weights") for x in lines
    )
    assert "training: 2 steps of 4 images, 1.0 epochs" in lines
    (summary,) = kinds(tmp_path, "summary")
    assert (summary["train_images"], summary["val_images"], summary["steps"]) == (8, 2, 2)
    assert summary["weights"] == "none"
    other, lines = train(tmp_path / "b", "train.steps=2", f"train.init_from={tmp_path}")
    (summary,) = kinds(other.directory, "summary")
    count = len(weights(tmp_path))
    assert summary["weights"] == f"{tmp_path}, {count} of {count} tensors"


def test_the_time_left_is_told_once_and_kept_beside_the_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconet.engine.forecast.TIMED_STEPS", 1)
    monkeypatch.setattr("reconet.engine.forecast.WORTH_TELLING", 0.0)
    _, lines = train(tmp_path, "train.steps=4")
    assert len([line for line in lines if line.startswith("time: about ")]) == 1
    first, forecast = read_log(tmp_path, "starts.jsonl")
    assert (first["kind"], first["step"], first["processes"]) == ("start", 0, 1)
    assert (forecast["kind"], forecast["step"]) == ("forecast", 2)
    assert forecast["seconds_left"] >= 0


def test_a_resumed_training_may_become_longer_and_says_so(tmp_path: Path) -> None:
    train(tmp_path / "run", "train.steps=2")
    result, lines = train(tmp_path / "run", "train.steps=4", resume=True)
    assert (result.step, result.steps, result.finished) == (4, 4, True)
    assert any(
        line.startswith("extended from 2 to 4 steps: from step 2 on the learning rate follows")
        for line in lines
    )
    (line,) = kinds(tmp_path / "run", "extended")
    assert (line["step"], line["steps_before"], line["steps"]) == (2, 2, 4)
    rates = [one["lr"] for one in kinds(tmp_path / "run", "train")]
    assert rates[-1] == pytest.approx(0.02 * (1 - 3 / 4) ** 0.9)
    assert read_recipe(tmp_path / "run" / "recipe.json").train.steps == 4
    again, _ = train(tmp_path / "run", "train.steps=4", resume=True)
    assert again.finished
    assert len(kinds(tmp_path / "run", "extended")) == 1


def test_a_resumed_training_may_not_become_shorter_or_change_otherwise(tmp_path: Path) -> None:
    train(tmp_path, "train.steps=4")
    with pytest.raises(TrainingError, match="started with 4 steps, and a resumed"):
        train(tmp_path, "train.steps=3", resume=True)
    with pytest.raises(TrainingError, match=r"optim\.lr is 0\.02 there and 0\.5 here"):
        train(tmp_path, "train.steps=6", "optim.lr=0.5", resume=True)


def test_a_resumed_training_may_skip_broken_images_from_now_on(tmp_path: Path) -> None:
    train(tmp_path, "train.steps=2")
    train(tmp_path, "train.steps=2", "data.on_error=skip", resume=True)
    assert read_recipe(tmp_path / "recipe.json").data.on_error == "skip"


def test_a_training_ends_when_the_score_has_not_improved_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = {2: 0.3, 4: 0.2, 6: 0.25, 8: 0.9}

    def validate(*_: object) -> Validation:
        step = run_of[0].state.step
        if step == 4 and interrupts:
            run_of[0].stop.signal = interrupts.pop()
        return Validation({"miou": scores[step]}, torch.full((14,), scores[step]), torch.eye(14))

    run_of: list[TrainingRun] = []
    interrupts: list[int] = []
    make = TrainingRun.__init__

    def remember(self: TrainingRun, *arguments: Any) -> None:
        make(self, *arguments)
        run_of[:] = [self]

    monkeypatch.setattr(Inputs, "validate", validate)
    monkeypatch.setattr(TrainingRun, "__init__", remember)
    result, _ = train(tmp_path / "a", "train.steps=8", "train.patience=2")
    assert (result.step, result.finished, result.out_of_patience) == (6, True, True)
    again, _ = train(tmp_path / "a", "train.steps=8", "train.patience=2", resume=True)
    assert (again.step, again.finished) == (6, True)
    # Stopped by a signal on the way, and resumed, it ends at the same step with the same bits.
    interrupts.append(2)
    stopped, _ = train(tmp_path / "b", "train.steps=8", "train.patience=2")
    assert (stopped.step, stopped.finished) == (5, False)
    train(tmp_path / "b", "train.steps=8", "train.patience=2", resume=True)
    assert_same(last(tmp_path / "a"), last(tmp_path / "b"))
    longer, _ = train(tmp_path / "a", "train.steps=8", "train.patience=3", resume=True)
    assert (longer.step, longer.out_of_patience) == (8, False)
    # A training that is made longer is patient anew.
    scores.update({9: 0.1, 10: 0.1})
    extended, _ = train(tmp_path / "b", "train.steps=10", "train.patience=2", resume=True)
    assert extended.step > 6


def test_a_longer_training_that_was_killed_before_it_saved_is_still_patient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = Validation({"miou": 0.3}, torch.full((14,), 0.3), torch.eye(14, dtype=torch.int64))
    monkeypatch.setattr(Inputs, "validate", lambda *_: same)
    short, _ = train(tmp_path, "train.steps=8", "train.patience=1")
    assert (short.step, short.out_of_patience) == (4, True)
    for dies in ("check_resources", "append_start", "training_steps"):
        with monkeypatch.context() as patch:
            patch.setattr(f"reconet.engine.run.{dies}", interrupt)
            with pytest.raises(KeyboardInterrupt):
                train(tmp_path, "train.steps=10", "train.patience=1", resume=True)
    longer, _ = train(tmp_path, "train.steps=10", "train.patience=1", resume=True)
    assert longer.step > 4


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_tensorboard_has_the_iou_of_each_class_and_images(tmp_path: Path) -> None:
    reader = import_module("tensorboard.backend.event_processing.event_accumulator")
    train(tmp_path, "train.steps=2")
    events = reader.EventAccumulator(str(tmp_path)).Reload()
    tags = events.Tags()
    assert {"train/loss", "val/loss", "val/miou", "iou/sky", "iou/sheep"} <= set(tags["scalars"])
    assert tags["images"] == ["val/0", "val/1"]


def test_a_training_may_run_in_a_thread(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        small = [*SMALL, "train.steps=2"]
        result = pool.submit(start_training, "scenes/tiny", tmp_path, settings=small, device="cpu")
    assert result.result().finished
