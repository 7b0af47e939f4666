"""The card of a shipped network says how it was trained, what it scores, and where it is weak."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from reconet.models.trained import load_trained
from reconet.recipes import write_recipe
from reconet.system.progress import SILENT
from reconet.system.run_files import RECIPE, STARTS
from tests.factories import tiny_network, tiny_recipe, write_run
from tools.make_pretrained import (
    Stage,
    confused_pairs,
    make_pretrained,
    read_stages,
    training_hours,
    training_section,
)

CLASSES = ("road", "grass", "sky")


def test_confusions_are_shares_of_the_true_class() -> None:
    count_kk = torch.tensor([[6, 4, 0], [1, 9, 0], [0, 0, 0]])
    assert confused_pairs(count_kk, CLASSES) == [(0.4, "road", "grass"), (0.1, "grass", "road")]


def test_hours_follow_from_the_speed_of_each_line() -> None:
    log = [
        {"kind": "train", "step": 100, "images_per_second": 4.0},
        {"kind": "val", "step": 100, "miou": 0.1},
        {"kind": "train", "step": 300, "images_per_second": 2.0},
    ]
    assert training_hours(log, batch=8) == pytest.approx((100 * 8 / 4 + 200 * 8 / 2) / 3600)


def test_interruptions_and_the_curve_are_told() -> None:
    log = [
        {"kind": "train", "step": 50, "loss": 2.0, "images_per_second": 1.0},
        {"kind": "extended", "step": 70, "steps_before": 70, "steps": 6000},
        *({"kind": "val", "step": 100 * n, "miou": n / 100} for n in range(1, 61)),
    ]
    machine = {"kind": "start", "processor": "a CPU", "torch": "2.13"}
    starts = [machine | {"step": step} for step in (0, 70, 90)]
    text = "\n".join(training_section([Stage(recipe=tiny_recipe(), log=log, starts=starts)]))
    assert "Interrupted 2 times, resumed at 70, 90." in text
    assert "Planned with 70 steps, and made longer at step 70." in text
    assert "Machine: a CPU, torch 2.13." in text
    assert "| 6000 | 2.000 | 60.00 |" in text, "the last validation is always there"
    assert text.count("\n| ") <= 27


def test_a_run_that_started_from_another_is_told_from_the_beginning(tmp_path: Path) -> None:
    first = write_run(tmp_path / "first", tiny_network(), log=True)
    second = write_run(tmp_path / "second", tiny_network(tiny_recipe("train.steps=7")))
    write_recipe(tiny_recipe("train.steps=7", f"train.init_from={first}"), second / RECIPE)
    assert [stage.recipe.train.steps for stage in read_stages(second)] == [20, 7]
    gone = tiny_recipe("train.init_from=/no/such/run")
    write_recipe(gone, first / RECIPE)
    assert len(read_stages(first)) == 1


def test_a_network_is_made_from_a_run(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", tiny_network(tiny_recipe("data.options.val=2")), log=True)
    start = {"kind": "start", "step": 0, "processor": "a CPU", "torch": "2.13"}
    (run / STARTS).write_text(json.dumps(start) + "\n")
    photo = tmp_path / "photo.png"
    Pillow.fromarray(np.full((30, 40, 3), 120, np.uint8)).save(photo)
    card = make_pretrained(
        run,
        "tiny12",
        licence="apache-2.0",
        backbone="Random weights.",
        data="Drawn images.",
        command="reconet train scenes/tiny",
        photos=[photo, photo],
        credits="Photographs: nobody's.",
        progress=SILENT,
        folder=tmp_path / "pretrained",
    )
    text = card.read_text()
    for wanted in (
        'license: "apache-2.0"',
        'from_pretrained("tiny12")',
        "| single scale | this file |",
        "| multi-scale, mirrored | this file |",
        "## Known weaknesses",
        "Never interrupted.",
        "Random weights.\n\nDrawn images.",
        "```\nreconet train scenes/tiny\n```",
        "(tiny12.jpg)\n\nPhotographs: nobody's.",
        "stored as int8",
    ):
        assert wanted in text
    assert str(tmp_path) not in text
    with Pillow.open(card.with_suffix(".jpg")) as strip:
        assert strip.width > 4 * 40 * 260 / 30, "two photographs and their overlays, side by side"
    assert load_trained(tmp_path / "pretrained" / "tiny12.safetensors").info.step == 7
