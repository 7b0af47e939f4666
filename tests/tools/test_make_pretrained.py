"""The card of a shipped network says how it was trained, what it scores, and where it is weak."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from reconet.inference import network
from reconet.inference.shipped import describe_shipped
from reconet.models import load_trained
from reconet.recipes import write_recipe
from tests.factories import ProgressRecorder, tiny_network, tiny_recipe, write_run
from tools.make_pretrained import (
    Stage,
    confused_pairs,
    make_pretrained,
    read_stages,
    training_hours,
    training_section,
)


def test_confusions_and_hours_are_those_of_the_log() -> None:
    count_kk = torch.tensor([[6, 4, 0], [1, 9, 0], [0, 0, 0]])
    pairs = confused_pairs(count_kk, ("road", "grass", "sky"))
    assert pairs == [(0.4, "road", "grass"), (0.1, "grass", "road")]
    log = [
        {"kind": "train", "step": 100, "loss": 2.0, "images_per_second": 4.0},
        {"kind": "val", "step": 100, "miou": 0.1},
        {"kind": "train", "step": 300, "loss": 1.0, "images_per_second": 2.0},
    ]
    assert training_hours(log, batch=8) == pytest.approx((100 * 8 / 4 + 200 * 8 / 2) / 3600)
    log = [{"kind": "extended", "step": 70, "steps_before": 70, "steps": 6000}, log[0], log[1]]
    machine = {"kind": "start", "processor": "a CPU", "torch": "2.13"}
    starts = [machine | {"step": step} for step in (0, 70, 90)]
    text = "\n".join(training_section([Stage(recipe=tiny_recipe(), log=log, starts=starts)]))
    assert "Interrupted 2 times, resumed at 70, 90." in text
    assert "Planned with 70 steps, and made longer at step 70." in text


def test_the_zoo_says_the_score_that_the_card_of_the_package_says() -> None:
    (voc12,) = (one for one in describe_shipped() if one.name == "voc12")
    rows = (
        f"| mIoU | {100 * voc12.miou:.2f} |",
        f"single scale | this file | {100 * voc12.miou:.2f}",
    )
    card = Path(voc12.path).with_suffix(".md").read_text()
    assert all(row in card for row in rows)


def test_a_network_is_made_from_a_run_that_started_from_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write_run(tmp_path / "first", tiny_network(tiny_recipe("data.options.val=2")), log=True)
    second = write_run(tmp_path / "second", tiny_network(tiny_recipe("train.steps=7")))
    write_recipe(tiny_recipe("train.steps=7", f"train.init_from={first}"), second / "recipe.json")
    assert [stage.recipe.train.steps for stage in read_stages(second)] == [20, 7]
    start = {"kind": "start", "step": 0, "processor": "a CPU", "torch": "2.13"}
    (first / "starts.jsonl").write_text(json.dumps(start) + "\n")
    photo = tmp_path / "photo.png"
    Pillow.fromarray(np.full((30, 40, 3), 120, np.uint8)).save(photo)
    card = make_pretrained(
        first,
        "tiny12",
        licence="apache-2.0",
        backbone="Random weights.",
        data="Drawn images.",
        command="reconet train scenes/tiny",
        photos=[photo, photo],
        credits="Photographs: nobody's.",
        progress=ProgressRecorder(),
        folder=tmp_path / "pretrained",
    )
    text = card.read_text()
    for wanted in (
        "license: apache-2.0",
        'from_pretrained("tiny12")',
        "| multi-scale, mirrored | this file |",
        "## Known weaknesses",
        "Never interrupted.",
        "On `val`, whole images",
        "Random weights.\n\nDrawn images.",
        "```\nreconet train scenes/tiny\n```",
    ):
        assert wanted in text
    assert str(tmp_path) not in text
    monkeypatch.setattr(network, "PRETRAINED", card.parent)
    (listed,) = describe_shipped()  # the score of the file itself, not that of the training
    rows = (
        f"| mIoU | {100 * listed.miou:.2f} |",
        f"single scale | this file | {100 * listed.miou:.2f}",
    )
    assert all(row in text for row in rows)
    assert listed.miou != load_trained(first).info.score["miou"]
    assert load_trained(tmp_path / "pretrained" / "tiny12.safetensors").info.step == 7
