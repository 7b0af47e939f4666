"""Networks are found by a path first, then by a name, and opened at a precision."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch

from reconet import Predictor, zoo
from reconet.cli import main
from reconet.errors import CheckpointError, OutputError, RecipeError
from reconet.inference import FoundNetwork, Network, find_network, network, open_network
from reconet.models import load_trained, save_compact
from tests.factories import ProgressRecorder, smooth_image, tiny_network, tiny_recipe, write_run
from tests.inference.helpers import ask_predict, save_image

CPU = torch.device("cpu")
BEST = "best.safetensors"
PHOTO = Path(mpl.get_data_path()) / "sample_data" / "grace_hopper.jpg"


@pytest.mark.skipif(not PHOTO.is_file(), reason="this matplotlib comes without its photograph")
def test_the_network_of_the_package_finds_the_person_in_a_portrait() -> None:
    result = Predictor.from_pretrained("voc12")(PHOTO)
    height, width = result.label_hw.shape
    assert result.classes[result.label_hw[height // 2, width // 2]] == "person"
    assert result.shares()["person"] > 0.3
    assert result.classes[result.label_hw[5, width // 2]] == "background"


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
    monkeypatch.setattr(network, "PRETRAINED", shipped)
    return tmp_path


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
    assert asked == ["mmseg/danet_r50"]
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
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda repo, name, **_: run / name)
    for source in (run, "somebody/net"):
        assert len(Predictor.from_pretrained(source, device="cpu").classes) == 14


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


def test_a_network_is_scored_by_its_name_on_its_own_dataset(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", "tiny12", "--device=cpu", "--json"]
    assert main([*words, "--set=data.options.val=3"]) == 0
    assert '"images": 3' in capsys.readouterr().out
    assert main([*words, "--set=model.rank=3"]) == 2
    assert "--set takes settings of data and eval here" in capsys.readouterr().err


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
    assert [path.name for path in network.PRETRAINED.iterdir()] == ["tiny12.safetensors"]


@pytest.mark.parametrize(
    ("seconds", "shift", "chosen"),
    [(0.5, 0.0, "rough"), (0.95, 0.0, "exact"), (2.0, 0.0, "exact"), (0.5, 0.5, "exact")],
)
def test_another_precision_must_be_faster_and_agree(
    run: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, shift: float, chosen: str
) -> None:
    trained, clock = load_trained(run), [0.0]
    real = network.make_network(trained, CPU)

    def fake(how: str, seconds: float, shift: float) -> Network:
        """Return the network, slower, with other labels at a fraction `shift` of the places."""

        def forward(image_bchw: torch.Tensor) -> torch.Tensor:
            clock[0] += seconds
            logits_bkij = real.forward(image_bchw).clone()
            logits_bkij[:, :, : round(shift * logits_bkij.shape[2])] *= -1
            return logits_bkij

        return replace(real, forward=forward, how=how)

    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    monkeypatch.setattr(network, "make_network", lambda *_: fake("rough", seconds, shift))
    assert network.choose_faster(fake("exact", 1.0, 0.0), trained, CPU).how == chosen


def test_bf16_can_be_asked_for_and_auto_is_fp32_where_the_cpu_has_none(
    predictor: Predictor, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rough = Predictor.from_run(run, device="cpu", precision="bf16")
    assert rough.network.how.startswith("torch bf16")
    assert rough.network.precision == "bf16"
    exact_hw, rough_hw = predictor(smooth_image(0)).label_hw, rough(smooth_image(0)).label_hw
    assert (exact_hw == rough_hw).mean() > 0.9
    monkeypatch.setattr(network, "bf16_works", lambda: False)
    opened = open_network(run, CPU, "auto")
    assert opened.how == "torch fp32, batch norm folded, channels last"
    assert opened.precision == "fp32"
    with pytest.raises(RecipeError, match="Did you mean 'bf16'"):
        open_network(run, CPU, "bf15")
    with pytest.raises(RecipeError, match="exported"):
        open_network(Path("a.onnx"), CPU, "fp32")


def test_a_prediction_imports_no_datasets_no_training_and_no_exports() -> None:
    code = "import sys, reconet.inference.video, reconet.inference.folder; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    loaded = set(done.stdout.split())
    for name in ("data.registry", "data.formats", "engine", "export", "study", "zoo"):
        assert f"reconet.{name}" not in loaded
