"""A warning before the first step if memory is short, or a refusal where less would do."""

from pathlib import Path

import pytest

from reconet.cost import model_cost
from reconet.engine import check_resources, make_state
from reconet.errors import TrainingError
from tests.engine.steps import ALONE
from tests.factories import ProgressRecorder, tiny_recipe


def warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, *settings: str
) -> list[str]:
    """Return the warnings on a machine with so much free memory."""
    monkeypatch.setattr("reconet.engine.forecast.free_memory", lambda device: free)
    recipe, progress = tiny_recipe(*settings), ProgressRecorder()
    state = make_state(recipe, 5, ALONE, fresh=True)
    check_resources(tmp_path, recipe, state, ALONE, progress)
    return progress.lines


def needed(copies: int) -> int:
    """Return the bytes that one image at a time needs, with so many copies of the weights."""
    recipe = tiny_recipe()
    model = make_state(recipe, 5, ALONE, fresh=True).model
    weights = 4 * sum(p.numel() for p in model.parameters())
    return model_cost(model, recipe.data.crop).training_bytes + copies * weights


def test_a_start_that_would_be_killed_asks_for_fewer_images_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = needed(3) + 1
    with pytest.raises(TrainingError, match=r"set train\.micro_batch=1\."):
        warnings(tmp_path, monkeypatch, short, "train.batch=4")
    who_sets_it_decides = ("train.batch=4", "train.micro_batch=2")
    [text] = warnings(tmp_path, monkeypatch, short, *who_sets_it_decides)
    assert "set train.micro_batch=1." in text
    assert not warnings(tmp_path, monkeypatch, 10 * needed(3), "train.batch=4")


def test_a_step_that_cannot_be_smaller_is_only_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [text] = warnings(tmp_path, monkeypatch, 1000, "train.batch=4", "train.micro_batch=1")
    assert "may not fit" in text
    assert "micro_batch" not in text
    ema = ("train.batch=1", "train.ema=0.9")  # the running mean of the weights needs room too
    assert warnings(tmp_path, monkeypatch, needed(4) - 1, *ema)
    assert not warnings(tmp_path, monkeypatch, needed(4), *ema)
    assert not warnings(tmp_path, monkeypatch, needed(3), "train.batch=1")
    assert not warnings(tmp_path, monkeypatch, 1, "data.crop=32"), "too small to estimate"
