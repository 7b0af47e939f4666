"""Networks are found by a path first, then by a name."""

from pathlib import Path

import numpy as np
import pytest

from reconet import zoo
from reconet.cli import main
from reconet.errors import CheckpointError, OutputError
from reconet.inference import FoundNetwork, Predictor, by_name, find_network, shipped_networks
from reconet.inference.by_name import PRETRAINED, find_pretrained
from reconet.models.trained import save_compact
from reconet.system.run_files import BEST
from tests.factories import ProgressRecorder, smooth_image, tiny_network, tiny_recipe, write_run
from tests.inference.folder.helpers import ask_predict, save_image


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one compact network, as the package has one."""
    folder = tmp_path_factory.mktemp("pretrained")
    recipe = tiny_recipe("data.crop=40", "data.base_size=48", "data.options.val=2")
    save_compact(folder / "tiny12.safetensors", tiny_network(recipe, decided=True))
    return folder


@pytest.fixture
def desk(tmp_path: Path, shipped: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter an empty directory, with that folder in place of the package's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(by_name, "PRETRAINED", shipped)
    return tmp_path


def test_a_name_is_that_of_a_file_in_the_package(shipped: Path) -> None:
    assert find_network("tiny12", shipped=shipped) == FoundNetwork(
        path=shipped / "tiny12.safetensors", name="tiny12"
    )
    assert list(shipped_networks(shipped)) == ["tiny12"]
    assert PRETRAINED.is_dir()


@pytest.mark.parametrize("kind", ["file", "run"])
def test_a_path_wins_over_a_name_and_a_note_says_so(kind: str, desk: Path) -> None:
    path = Path("tiny12")
    if kind == "run":
        write_run(path, tiny_network())
    else:
        path.write_bytes(b"anything")
    progress = ProgressRecorder()
    assert find_network("tiny12", progress=progress) == FoundNetwork(path=path)
    assert progress.lines == [
        "tiny12 is a path here. It is used, and not the network of this name."
    ]


def test_results_do_not_go_through_a_link_out_of_the_run(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", tiny_network())
    (run / "predictions").symlink_to(tmp_path)
    with pytest.raises(OutputError, match="leads out of its folder"):
        find_network(run).home("predictions")
    assert find_network(run).home("explain") == run / "explain"
    (run / "explain").symlink_to("explain")
    with pytest.raises(OutputError, match="leads to itself"):
        find_network(run).home("explain")


def test_a_folder_without_a_network_does_not_hide_the_name(desk: Path) -> None:
    (desk / "tiny12" / "JPEGImages").mkdir(parents=True)  # a dataset, as likely as not
    progress = ProgressRecorder()
    assert find_network("tiny12", progress=progress).name == "tiny12"
    assert progress.lines == [
        "the folder tiny12 holds no network. The network of this name is used."
    ]


def test_other_paths_are_found_without_a_note(desk: Path) -> None:
    write_run(desk / "run", tiny_network())
    progress = ProgressRecorder()
    for path in (Path("run"), Path("run") / BEST, desk):
        assert find_network(path, progress=progress) == FoundNetwork(path=path)
    assert not progress.lines


def test_what_is_not_there_is_an_error_with_what_is_near(desk: Path) -> None:
    write_run(desk / "runs" / "first", tiny_network())
    with pytest.raises(CheckpointError, match=r"^no network 'tiny21': .*Did you mean tiny12\?"):
        find_network("tiny21")
    with pytest.raises(CheckpointError, match=r"Did you mean runs/first\?"):
        find_network("runs/frist")
    with pytest.raises(CheckpointError, match=r"of this name\. `reconet zoo` lists the names"):
        find_network("elsewhere/x")


def test_a_public_network_is_opened_by_the_zoo(
    desk: Path, shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def open_public(name: str, progress: object) -> Path:
        asked.append(name)
        return shipped / "tiny12.safetensors"

    monkeypatch.setattr(zoo, "CATALOGUE", {"mmseg/danet_r50": None})
    monkeypatch.setattr(zoo, "open_public", open_public)
    found = find_network("mmseg/danet_r50")
    assert (found.path, str(found)) == (shipped / "tiny12.safetensors", "mmseg/danet_r50")
    assert found.home("predictions") == Path("predictions-mmseg-danet_r50")
    assert find_pretrained("mmseg/danet_r50") == shipped / "tiny12.safetensors"
    assert asked == ["mmseg/danet_r50"] * 2
    with pytest.raises(CheckpointError, match=r"Did you mean mmseg/danet_r50\?"):
        find_network("mmseg/danet_r5")


def test_from_pretrained_takes_names_folders_and_hub_ids(
    desk: Path, shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image_hwc = smooth_image(1)
    named = Predictor.from_pretrained("tiny12", device="cpu", precision="fp32")
    by_path = Predictor.from_run(shipped / "tiny12.safetensors", device="cpu", precision="fp32")
    np.testing.assert_array_equal(named(image_hwc).label_hw, by_path(image_hwc).label_hw)
    run = write_run(desk / "run", tiny_network())
    assert find_pretrained(run) == run / BEST
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda repo, name, **_: f"{repo}/{name}")
    assert find_pretrained("somebody/net") == Path("somebody/net") / BEST


def test_predictions_of_a_name_go_to_the_working_directory_and_are_described(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_image(desk / "photo.png")
    code, result, err = ask_predict(capsys, Path("tiny12"), "photo.png")
    assert code == 0, err
    assert (desk / "predictions-tiny12" / "photo.overlay.jpg").is_file()
    lines = result["text"].splitlines()
    assert "overlay: predictions-tiny12/photo.overlay.jpg" in lines
    assert any(line.startswith("network: tiny12, run as torch fp32") for line in lines)
    assert any(line.startswith("time: ") and "start" in line and "open" in line for line in lines)
    _, result, _ = ask_predict(capsys, Path("tiny12"), "photo.png", "--json")
    assert (result["network"], result["skipped"]) == ("tiny12", 1)
    for name, share in result["images"][0]["shares"].items():
        assert any(line.split() == [name, f"{100 * share:.1f}"] for line in lines)
    assert result["seconds"]["total"] >= result["seconds"]["open"] > 0


def test_several_images_are_counted(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.png", "b.png"):
        save_image(desk / name)
    _, result, _ = ask_predict(capsys, Path("tiny12"), "a.png", "b.png")
    assert "predictions in predictions-tiny12" in result["text"]
    assert "% of the image" not in result["text"]


def test_a_network_is_scored_by_its_name_on_its_own_dataset(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", "tiny12", "--device=cpu", "--json"]
    assert main([*words, "--set=data.options.val=3"]) == 0
    assert '"images": 3' in capsys.readouterr().out
    assert main([*words, "--set=model.rank=3"]) == 2
    assert "--set takes settings of data and eval here" in capsys.readouterr().err


def test_a_training_may_start_from_a_name(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["train.steps=1", "data.options.train=4", "data.options.val=1"]
    settings += ["data.crop=40", "data.base_size=48", "train.init_from=tiny12"]
    words = ["train", "scenes/tiny", "--out=run", "--device=cpu"]
    assert main([*words, *(f"--set={setting}" for setting in settings)]) == 0, capsys.readouterr()
    capsys.readouterr()


@pytest.mark.slow
def test_every_verb_that_takes_a_network_takes_its_name(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_image(desk / "photo.png", height=64, width=64)
    for words, written in [
        (["explain", "tiny12", "photo.png"], "explain-tiny12/photo/explain.html"),
        (["export", "tiny12", "--format=torch"], "tiny12.pt2"),
        (["prune", "tiny12", "--rank=2", "--images=2"], f"tiny12-rank2/{BEST}"),
        (["share", "tiny12", "--out=shared"], "shared/README.md"),
        (
            ["bench", "model", "tiny12", "--rounds=1", "--size=64", "--way=Predictor's default"],
            "photo.png",
        ),
    ]:
        assert main(words) == 0, capsys.readouterr().err
        assert (desk / written).is_file(), capsys.readouterr().out
    page = (desk / "explain-tiny12" / "photo" / "explain.html").read_text()
    assert "reconet explain tiny12 photo.png" in page
    assert [path.name for path in by_name.PRETRAINED.iterdir()] == ["tiny12.safetensors"]
