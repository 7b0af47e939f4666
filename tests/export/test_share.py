"""Sharing: a folder that others can open, and its upload."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reconet.cli import main
from reconet.data.scenes.generate import CLASSES
from reconet.errors import CheckpointError, OutputError, RecipeError
from reconet.export.share import CARD, RUN_FILES, upload_folder, write_shared_folder
from reconet.inference.predictor import Predictor
from reconet.models.trained import load_trained, save_trained
from reconet.models.weights import find_shared
from reconet.recipes import read_recipe
from reconet.system.files import readable_bytes
from reconet.system.run_files import BEST, LAST, LOG, RECIPE, SHEET
from tests.export.helpers import decided_run
from tests.factories import ProgressRecorder, tiny_network, tiny_recipe, write_run


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
    assert 'license: "BSD-3-Clause"' in (folder / CARD).read_text()
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


@pytest.mark.parametrize("there", ["README.md", "notes.txt", *RUN_FILES])
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
    sizes = f"weights: {readable_bytes(before)} before, {readable_bytes(after)} now"
    assert capsys.readouterr().out.splitlines() == [str(out), sizes]
    assert "stored as int8" in (out / CARD).read_text()
    assert read_recipe(out / RECIPE).model.aux, "the recipe is that of the training"
    assert Predictor.from_pretrained(out, device="cpu").classes == CLASSES
    assert load_trained(out).model.aux is None


def test_what_a_run_directory_is_known_by_is_what_a_training_writes() -> None:
    assert RUN_FILES == (LAST, LOG)


def test_a_wrong_hub_id_is_told_before_anything_is_written(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["share", str(run), "--out", str(tmp_path / "shared"), "--push", "nobody"]) == 2
    assert "hub id such as" in capsys.readouterr().err
    assert not (tmp_path / "shared").exists()


def test_what_is_no_shared_network_is_one_line(run: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"there is no best\.safetensors in it"):
        find_shared(tmp_path.parent)
    with pytest.raises(CheckpointError, match="it is no folder, no hub id"):
        find_shared("/no/such/place")
    with pytest.raises(OutputError, match="the run itself"):
        write_shared_folder(run, run)
    with pytest.raises(RecipeError, match="hub id such as"):
        upload_folder(run, "nobody")


def test_a_hub_id_is_downloaded_and_a_failure_is_one_line(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def download(repo: str, name: str, *, local_files_only: bool) -> str:
        asked.append((repo, name))
        if repo == "somebody/gone":
            raise OSError("no network")
        return str(run / BEST)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert find_shared("somebody/reconet-voc") == run / BEST
    with pytest.raises(CheckpointError, match="cannot get 'somebody/gone' from the hub"):
        find_shared("somebody/gone")
    assert asked == [("somebody/reconet-voc", BEST), ("somebody/gone", BEST)]


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


def test_the_card_calls_a_folder_of_images_by_its_name(tmp_path: Path) -> None:
    settings = ["data.name=folder", "data.root=/home/ann/streets", "data.options={}"]
    trained = tiny_network(
        tiny_recipe(*settings), classes=("road", "roof"), palette=((0, 0, 0), (9, 9, 9))
    )
    run = write_run(tmp_path / "run", trained)
    card = (write_shared_folder(run, tmp_path / "shared") / "README.md").read_text()
    assert "# reconet on resnet18, trained on folder streets" in card
    assert "Trained on folder streets (train), 2 classes (road, roof)" in card
    assert "/home/ann" not in card
