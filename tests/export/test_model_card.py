"""The model card says what the network is, and nothing that nobody stated."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from reconet.cli import main
from reconet.data.scenes.generate import CLASSES
from reconet.export.model_card import model_card
from reconet.inference.protocol import Protocol
from reconet.models.trained import load_trained
from reconet.system.run_files import SHEET
from tests.export.helpers import decided_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = decided_run(tmp_path)
    Image.new("RGB", (20, 10)).save(directory / SHEET)
    return directory


def test_a_network_of_tiny_crops_has_a_card(tmp_path: Path) -> None:
    trained = load_trained(decided_run(tmp_path, "data.crop=32"))
    assert "33 x 33" in model_card(trained, "tiny", None, images=False)


def test_the_card_says_what_the_network_is(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "shared"
    assert main(["share", str(run), "--out", str(out), "--licence", "mit"]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    text = (out / "README.md").read_text()
    _, front, page = text.split("---\n", 2)
    facts = dict(line.split(": ", 1) for line in front.splitlines())
    assert json.loads(facts["license"]) == "mit"
    (entry,) = json.loads(facts["model-index"])
    assert entry["results"][0]["metrics"] == [{"type": "miou", "value": 0.5, "name": "mIoU"}]
    for wanted in (
        "| mIoU | 50.00 |",
        "M parameters",
        CLASSES[0],
        SHEET,
        '"rank": 4',
        "64 x 64",
        "pip install .",
    ):
        assert wanted in page
    assert (out / SHEET).is_file()


def test_only_scores_are_shown_as_scores_and_with_their_protocol(run: Path) -> None:
    trained = load_trained(run)
    score = {"miou": 0.25, "effective_rank": 1.66, "lambda_spread": 0.00013}
    other = replace(trained, info=replace(trained.info, score=score))
    text = model_card(other, "A title", None, images=False)
    index = next(line for line in text.splitlines() if line.startswith("model-index: "))
    assert "miou" in index
    assert "effective_rank" not in index
    assert "| mIoU | 25.00 |" in text
    assert "| effective" not in text
    assert "effective rank 1.66, lambda spread 0.00013." in text
    assert f"as validated in training: {Protocol.in_training(trained.info.recipe.data)}." in text


def test_a_licence_that_nobody_stated_is_not_made_up(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["share", str(run), "--out", str(tmp_path / "shared")]) == 0
    assert "no licence is stated" in capsys.readouterr().err
    text = (tmp_path / "shared" / "README.md").read_text()
    assert 'license: "other"\nlicense_name: "not-stated"\n' in text
    assert "not stated by the person who shared them" in text
