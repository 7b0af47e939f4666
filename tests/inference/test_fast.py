"""--fast: correct labels and one line, whatever happens to the measurement and to what is kept."""

import json
import shutil
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from reconet.cli import main
from reconet.errors import RecipeError
from reconet.export import export
from reconet.export import fast as measuring
from reconet.inference import Predictor, fast, network, open_network
from reconet.models import load_trained, save_trained
from tests.factories import ProgressRecorder, smooth_image, tiny_network, tiny_recipe, write_run

pytest.importorskip("openvino")
CPU = torch.device("cpu")
NETWORK = tiny_recipe("data.crop=32", "data.base_size=48")
Jobs = list[dict[str, Any]]  # what the measurements were asked for
TEXT = "OpenVINO, 2.00 times as fast as fp32"


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write an OpenVINO file that stands in for int8: it rounds nothing."""
    run = write_run(tmp_path_factory.mktemp("run"), tiny_network(NETWORK, decided=True), log=True)
    return export(run, format="openvino", out=run / "network.xml").path


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path / "cache"))
    return write_run(tmp_path / "run", tiny_network(NETWORK, decided=True), log=True)


@pytest.fixture
def jobs(exported: Path, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """Replace the measurement by one that always keeps the same file, and count its calls."""
    seen: Jobs = []

    def keep(arguments: Sequence[str], progress: object) -> None:
        job = json.loads(arguments[-1])
        seen.append(job)
        folder = Path(job["folder"])
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for suffix in (".xml", ".bin"):
            shutil.copy(exported.with_suffix(suffix), (folder / "network.xml").with_suffix(suffix))
        had_images, digest = (
            bool(job["images"] or job["data"]),
            network.hash_files(folder / fast.INT8),
        )
        way = fast.FastWay(text=TEXT, smallest=17, had_images=had_images, digest=digest)
        (folder / fast.CHOICE).write_text(way.model_dump_json())

    monkeypatch.setattr(fast, "run_measurement", keep)
    return seen


def check_labels(run: Path, *, int8: bool) -> str:
    """Check that --fast gives the labels of fp32, with one line. Return the line."""
    recorder = ProgressRecorder()
    segment = Predictor.from_run(run, device="cpu", fast=True, progress=recorder)
    plain = Predictor.from_run(run, device="cpu")
    for size in ((30, 44), (61, 40), (5, 9)):
        same_hw = segment(smooth_image(1, *size)).label_hw == plain(smooth_image(1, *size)).label_hw
        assert same_hw.mean() > 0.999
    assert segment.network.how.startswith("OpenVINO" if int8 else "torch fp32")
    (line,) = recorder.lines
    assert "\n" not in line
    return line


def test_the_second_call_measures_nothing(run: Path, jobs: Jobs) -> None:
    expected = f"fast: {TEXT}; kept in {run.parent / 'cache' / 'fast'}"
    assert check_labels(run, int8=True) == check_labels(run, int8=True) == expected
    assert len(jobs) == 1


def test_images_smaller_than_an_export_takes_go_through_the_network(run: Path, jobs: Jobs) -> None:
    image_bchw = torch.from_numpy(smooth_image(1, 7, 9)).permute(2, 0, 1)[None].contiguous()
    small = fast.open_fast(run, CPU).forward(image_bchw)
    torch.testing.assert_close(small, open_network(run, CPU).forward(image_bchw))


def test_other_weights_and_other_packages_are_measured_again(
    run: Path, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast.find_way(run, CPU)
    trained = load_trained(run)
    with torch.no_grad():
        trained.model.classify.weight += 1
    save_trained(run / "best.safetensors", trained)
    fast.find_way(run, CPU)
    assert len(jobs) == 2
    monkeypatch.setattr(fast, "_version", lambda package: f"{package} 99")
    fast.find_way(run, CPU)
    assert len(jobs) == 3


@pytest.mark.parametrize("name", ["network.xml", "network.bin", "choice.json"])
def test_a_damaged_file_is_measured_again(run: Path, jobs: Jobs, name: str) -> None:
    folder = fast.find_way(run, CPU).folder
    assert folder is not None
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 255
    (folder / name).write_bytes(data)
    check_labels(run, int8=True)
    assert len(jobs) == 2


def test_without_images_it_is_measured_again_once_there_are_some(
    run: Path, jobs: Jobs, tmp_path: Path
) -> None:
    images = [tmp_path / f"{number}.png" for number in range(200)]
    for some in ((), images[:1], images, images, ()):  # a single one is too few to judge by
        fast.find_way(run, CPU, some)
    assert [len(job["images"]) for job in jobs] == [0, 64]


def test_a_killed_measurement_means_fp32(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_python = fast.run_measurement
    code = f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})"
    monkeypatch.setattr(
        fast, "run_measurement", lambda _, progress: run_python(["-c", code], progress)
    )
    line = check_labels(run, int8=False)
    assert line.endswith("int8 could not be tried: the measurement was killed (SIGKILL)")


def test_fast_chooses_the_precision(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RecipeError, match="precision"):
        Predictor.from_run(run, fast=True, precision="bf16")
    assert main(["predict", str(run), "any.png", "--fast", "--precision=bf16"]) == 2
    assert "leave out --precision" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("same", "before", "after", "good"),
    [
        (0.99, None, None, True),
        (0.979, None, None, False),
        (0.99, 0.600, 0.596, True),
        (0.99, 0.600, 0.594, False),
    ],
)
def test_agreement_and_score_have_limits(
    same: float, before: float | None, after: float | None, good: bool
) -> None:
    assert measuring.Agreement(same=same, before=before, after=after).is_good is good


def test_the_score_counts_where_labels_are_known() -> None:
    info = tiny_network(NETWORK).info
    truth_hw = np.array([[0, 1], [1, 255]], np.uint8)
    right, wrong = torch.tensor([[0, 1], [1, 1]]).byte(), torch.tensor([[0, 1], [0, 1]]).byte()
    found = measuring.compare([truth_hw], [right], [wrong], info)
    assert found.same == 0.75
    assert found.before == 1.0
    assert found.after == 0.5
    assert measuring.compare([None], [right], [wrong], info).after is None


def test_images_at_hand_serve_where_the_dataset_is_not_here(tmp_path: Path) -> None:
    info = tiny_network(NETWORK).info
    assert measuring.find_images(info, ())[1].endswith(
        "of scenes val"
    )  # this network's own dataset
    data = info.recipe.data.model_copy(update={"name": "unknown"})
    info = replace(info, recipe=info.recipe.model_copy(update={"data": data}))
    paths = [tmp_path / f"{number}.png" for number in range(6)]
    for number, path in enumerate(paths[1:]):
        Pillow.fromarray(smooth_image(number)).save(path)
    paths[0].write_text("no image")
    images, origin = measuring.find_images(info, paths)
    assert (len(images), origin) == (5, "3 images at hand")


@pytest.mark.slow
@pytest.mark.timeout(1800)  # it exports, quantises and measures
def test_a_real_measurement_keeps_labels_and_is_remembered(run: Path) -> None:
    segment = Predictor.from_run(run, device="cpu", fast=True)
    plain = Predictor.from_run(run, device="cpu")
    image_hwc = smooth_image(4, 50, 70)
    assert np.mean(segment(image_hwc).label_hw == plain(image_hwc).label_hw) >= 0.95
    kept = [path.stat().st_mtime_ns for path in run.parent.rglob("choice.json")]
    assert len(kept) == 1
    fast.find_way(run, CPU)
    assert [path.stat().st_mtime_ns for path in run.parent.rglob("choice.json")] == kept


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(5):
        Pillow.fromarray(smooth_image(number)).save(folder / f"{number}.png")
    return folder


def test_predict_calibrates_by_the_images_at_hand_and_keeps_its_labels_apart(
    run: Path, jobs: Jobs, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    predict = ["predict", str(run), str(photos), "--json", "--device=cpu"]
    assert main([*predict, "--fast"]) == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert (result["how"], result["done"]) == ("OpenVINO fp32", 5)
    assert Path(result["out"]).name == "predictions-fast"
    assert TEXT in printed.err
    assert len(jobs[0]["images"]) == 5
    assert main([*predict, "--out", result["out"]]) == 2
    assert "of this network with other settings" in capsys.readouterr().err


def test_evaluate_gives_the_same_scores(
    run: Path, jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["evaluate", str(run), "--json", "--device=cpu", "--set=eval.mode=whole"]
    assert main(arguments) == 0
    plain = json.loads(capsys.readouterr().out)
    assert main([*arguments, "--fast"]) == 0
    assert json.loads(capsys.readouterr().out)["figures"] == pytest.approx(
        plain["figures"], abs=1e-3
    )
