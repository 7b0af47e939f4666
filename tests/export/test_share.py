"""Sharing: a folder with a card that others can open, and its upload."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml  # type: ignore[import-untyped]
from PIL import Image

from reconet import Predictor
from reconet.cli import main
from reconet.data.scenes.generate import CLASSES
from reconet.errors import CheckpointError, OutputError
from reconet.export import upload_folder, write_shared_folder
from reconet.export.share import model_card
from reconet.models.trained import load_trained, save_trained
from reconet.recipes import read_recipe
from tests.export.helpers import decided_run
from tests.factories import ProgressRecorder, tiny_network, write_run

CARD, SHEET, RECIPE, BEST = "README.md", "predictions.png", "recipe.json", "best.safetensors"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = decided_run(tmp_path, "data.root=/home/somebody/secret")
    Image.new("RGB", (20, 10)).save(directory / SHEET)
    return directory


def test_a_shared_folder_gives_the_same_predictions(run: Path, tmp_path: Path) -> None:
    folder = write_shared_folder(run, tmp_path / "shared", licence="mit")
    image_hwc = np.random.default_rng(0).integers(0, 256, (48, 70, 3), np.uint8)
    shared = Predictor.from_pretrained(folder, device="cpu")
    ours = Predictor.from_run(run, device="cpu")
    np.testing.assert_array_equal(shared(image_hwc).label_hw, ours(image_hwc).label_hw)
    assert shared.classes == CLASSES


def test_what_a_link_leads_to_is_not_shared(
    run: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("elsewhere") / "secret"
    secret.write_text("private")
    (run / SHEET).unlink()
    (run / SHEET).symlink_to(secret)
    with pytest.raises(OutputError, match="leads out of its folder"):
        write_shared_folder(run, tmp_path / "shared", licence="mit")
    assert not (tmp_path / "shared" / SHEET).exists()


def test_a_converted_network_keeps_the_licence_of_its_makers(tmp_path: Path) -> None:
    network = tiny_network()
    info = replace(network.info, origin={"source": "a toolkit", "licence": "BSD-3-Clause"})
    run = write_run(tmp_path / "run", replace(network, info=info))
    progress = ProgressRecorder()
    folder = write_shared_folder(run, tmp_path / "shared", progress=progress)
    assert "license: BSD-3-Clause\n" in (folder / CARD).read_text()
    assert not progress.lines


def test_where_the_owner_keeps_files_stays_private(tmp_path: Path) -> None:
    places = ["data.root=/home/me/secret", "train.init_from=/home/me/secret/best.safetensors"]
    places += ["data.options.train=8", "model.options={}"]
    run = decided_run(tmp_path / "run", *places)
    trained = load_trained(run)
    model = trained.info.recipe.model.model_copy(update={"weights": "/home/me/secret/resnet.pth"})
    recipe = trained.info.recipe.model_copy(update={"model": model})
    save_trained(run / BEST, replace(trained, info=replace(trained.info, recipe=recipe)))
    folder = write_shared_folder(run, tmp_path / "shared")
    assert load_trained(folder).info.recipe.data.root is None
    for path in folder.iterdir():
        assert b"secret" not in path.read_bytes(), path.name


@pytest.mark.parametrize("there", ["README.md", "notes.txt", "last.pt", "log.jsonl"])
def test_a_folder_that_is_not_ours_is_left_as_it_is(run: Path, tmp_path: Path, there: str) -> None:
    out = tmp_path / "project"
    out.mkdir()
    (out / there).write_text("mine")
    with pytest.raises(OutputError, match="project exists and holds other files"):
        write_shared_folder(run, out)
    assert [path.read_text() for path in out.iterdir()] == ["mine"]


def test_a_folder_of_ours_is_written_again(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "shared"
    write_shared_folder(run, out, name="The first")
    (out / "notes.txt").write_text("mine")
    write_shared_folder(run, out, name="The second")
    assert "# The second" in (out / CARD).read_text()
    assert (out / "notes.txt").read_text() == "mine"


def test_a_compact_file_is_smaller_and_every_door_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("reconet.models.trained.SMALL", 0)  # all layers of a tiny network are int8
    run, out = decided_run(tmp_path / "run", "model.aux=true"), tmp_path / "shared"
    words = ["share", str(run), "--out", str(out), "--licence", "mit"]
    assert main([*words, "--compact"]) == 0
    before, after = ((folder / BEST).stat().st_size for folder in (run, out))
    assert after < 0.45 * before  # names and shapes are a large part of a tiny file
    assert capsys.readouterr().out.splitlines()[0] == str(out)
    assert "stored as int8" in (out / CARD).read_text()
    assert read_recipe(out / RECIPE).model.aux, "the recipe is that of the training"
    assert Predictor.from_pretrained(out, device="cpu").classes == CLASSES
    assert load_trained(out).model.aux is None


def test_a_hub_id_is_downloaded_and_a_failure_is_one_line(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(repo: str, name: str, *, local_files_only: bool) -> str:
        if repo == "somebody/gone":
            raise OSError("no network")
        return str(run / name)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert Predictor.from_pretrained("somebody/reconet-voc", device="cpu").classes == CLASSES
    for source, message in {
        "somebody/gone": "cannot get 'somebody/gone' from the hub",
        str(run.parent): r"there is no best\.safetensors in it",
        "/no/such/place": "it is no folder, no hub id",
    }.items():
        with pytest.raises(CheckpointError, match=message):
            Predictor.from_pretrained(source)
    with pytest.raises(OutputError, match="the run itself"):
        write_shared_folder(run, run)


def test_upload_makes_the_place_and_sends_our_files_alone(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []

    def create(repo: str, *, private: bool, exist_ok: bool) -> str:
        done.append((repo, private, exist_ok))
        return f"hub/{repo}"

    def upload(*, repo_id: str, folder_path: Path, allow_patterns: list[str]) -> None:
        done.append((repo_id, folder_path, allow_patterns))

    monkeypatch.setattr("huggingface_hub.create_repo", create)
    monkeypatch.setattr("huggingface_hub.upload_folder", upload)
    assert upload_folder(run, "me/net", private=True) == "hub/me/net"
    assert done == [("me/net", True, True), ("me/net", run, [CARD, RECIPE, BEST, SHEET])]


def test_the_card_says_what_the_network_is(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "shared"
    assert main(["share", str(run), "--out", str(out), "--licence", "mit"]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    text = (out / "README.md").read_text()
    _, front, page = text.split("---\n", 2)
    facts = yaml.safe_load(front)
    assert facts["license"] == "mit"
    ((result,),) = [entry["results"] for entry in facts["model-index"]]
    [metric] = result["metrics"]
    assert (metric["type"], metric["value"], metric["name"]) == ("miou", 0.5, "mIoU")
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
    front = text.split("---\n")[1]
    assert "type: miou" in front
    assert "effective_rank" not in front
    assert "| mIoU | 25.00 |" in text
    assert "| effective" not in text
    assert "effective rank 1.66, lambda spread 0.00013." in text
    assert "as validated in training: whole images" in text


def test_a_licence_that_nobody_stated_is_not_made_up(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["share", str(run), "--out", str(tmp_path / "shared")]) == 0
    assert "no licence is stated" in capsys.readouterr().err
    text = (tmp_path / "shared" / "README.md").read_text()
    assert "license: other\nlicense_name: not-stated\n" in text
    assert "not stated by the person who shared them" in text
