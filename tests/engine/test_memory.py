"""A warning before the first step if memory is short, or a refusal where less would do."""

from pathlib import Path

import pytest
import torch

import reconet
import reconet.engine.memory
from reconet.cost import model_cost
from reconet.engine.memory import memory_warning
from reconet.engine.setup import make_state
from reconet.errors import TrainingError
from reconet.system.distributed import Processes
from reconet.system.progress import SILENT
from tests.factories import ProgressRecorder, tiny_recipe

ALONE = Processes.single(torch.device("cpu"))


def warning(monkeypatch: pytest.MonkeyPatch, free: int, *settings: str) -> str | None:
    """Return the warning on a machine with so much free memory."""
    monkeypatch.setattr(reconet.engine.memory, "free_memory", lambda device: free)
    recipe = tiny_recipe(*settings)
    return memory_warning(recipe, make_state(recipe, 5, ALONE, fresh=True), ALONE)


def needed(copies: int) -> int:
    """Return the bytes of a step of one image, with so many copies of the weights."""
    recipe = tiny_recipe()
    model = make_state(recipe, 5, ALONE, fresh=True).model
    weights = 4 * sum(p.numel() for p in model.parameters())
    return model_cost(model, recipe.data.crop).training_bytes + copies * weights


def test_fewer_images_at_once_are_advised_where_that_helps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = warning(monkeypatch, needed(3) + 1, "train.batch=4")
    assert text is not None
    assert "set train.micro_batch=1" in text
    assert warning(monkeypatch, 10 * needed(3), "train.batch=4") is None


def test_one_image_at_once_cannot_be_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    text = warning(monkeypatch, 1000, "train.batch=4", "train.micro_batch=1")
    assert text is not None
    assert "may not fit" in text
    assert "micro_batch" not in text


def test_the_running_mean_of_the_weights_needs_room_too(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ("train.batch=1", "train.ema=0.9")
    assert warning(monkeypatch, needed(4) - 1, *settings) is not None
    assert warning(monkeypatch, needed(4), *settings) is None
    assert warning(monkeypatch, needed(3), "train.batch=1") is None


def test_a_crop_too_small_to_estimate_is_no_reason_to_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert warning(monkeypatch, 1, "data.crop=32") is None


def test_a_start_that_would_be_killed_asks_for_fewer_images_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reconet.engine.memory, "free_memory", lambda device: needed(3) + 1)
    settings = ["train.batch=4", "train.steps=1"]
    with pytest.raises(TrainingError, match=r"set train\.micro_batch=1\."):
        reconet.train(tiny_recipe(*settings), tmp_path / "run", progress=SILENT)
    recorder = ProgressRecorder()
    settings.append("train.micro_batch=2")  # who sets it decides
    reconet.train(tiny_recipe(*settings), tmp_path / "run", progress=recorder)
    assert any("set train.micro_batch=1." in line for line in recorder.lines)
