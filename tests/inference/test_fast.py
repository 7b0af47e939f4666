"""--fast: correct labels and one line, whatever happens to the measurement and to what is kept."""

import json
import os
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
from reconet.errors import OutputError, RecipeError
from reconet.export import fast as measuring
from reconet.export.fast import Agreement, ProbeImage, compare, find_images, measure
from reconet.export.formats import FORMATS
from reconet.export.graph import export_info, trace
from reconet.inference import Predictor, fast, open_network
from reconet.inference.fast import CHOICE, INT8, FastWay, Job, find_way, open_fast
from reconet.inference.folder import predict as predict_module
from reconet.inference.probe import hash_export
from reconet.models.trained import load_trained, save_trained
from reconet.serve import open_server
from reconet.system.progress import Progress
from reconet.system.run_files import BEST
from reconet.system.user_cache import FAST, ROOT_VARIABLE, cache_root
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
    trained = load_trained(run)
    FORMATS["openvino"].write(trace(trained.model), export_info(trained), run / INT8)
    return run / INT8


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path / "cache"))
    return write_run(tmp_path / "run", tiny_network(NETWORK, decided=True), log=True)


@pytest.fixture
def jobs(exported: Path, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """Replace the measurement by one that always keeps the same file, and count its calls."""
    seen: Jobs = []

    def keep(arguments: Sequence[str], progress: Progress) -> None:
        job = json.loads(arguments[-1])
        seen.append(job)
        folder = Path(job["folder"])
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for suffix in (".xml", ".bin"):
            shutil.copy(exported.with_suffix(suffix), (folder / INT8).with_suffix(suffix))
        had_images, digest = bool(job["images"] or job["data"]), hash_export(folder / INT8)
        way = FastWay(text=TEXT, smallest=17, had_images=had_images, digest=digest)
        (folder / CHOICE).write_text(way.model_dump_json())

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
    expected = f"fast: {TEXT}; kept in {cache_root() / FAST}"
    assert check_labels(run, int8=True) == check_labels(run, int8=True) == expected
    assert len(jobs) == 1


def test_images_smaller_than_an_export_takes_go_through_the_network(run: Path, jobs: Jobs) -> None:
    image_bchw = torch.from_numpy(smooth_image(1, 7, 9)).permute(2, 0, 1)[None].contiguous()
    small = open_fast(run, CPU).forward(image_bchw)
    torch.testing.assert_close(small, open_network(run, CPU).forward(image_bchw))


def test_other_weights_and_other_packages_are_measured_again(
    run: Path, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_way(run, CPU)
    trained = load_trained(run)
    with torch.no_grad():
        trained.model.classify.weight += 1
    save_trained(run / BEST, trained)
    find_way(run, CPU)
    assert len(jobs) == 2
    monkeypatch.setattr(fast, "_version", lambda package: f"{package} 99")
    find_way(run, CPU)
    assert len(jobs) == 3


@pytest.mark.parametrize("name", [INT8, "network.bin", CHOICE])
def test_a_damaged_file_is_measured_again(run: Path, jobs: Jobs, name: str) -> None:
    folder = find_way(run, CPU).folder
    assert folder is not None
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 255
    (folder / name).write_bytes(data)
    assert "(measured again: the kept file was damaged)" in check_labels(run, int8=True)
    assert len(jobs) == 2


def test_without_images_it_is_measured_again_once_there_are_some(
    run: Path, jobs: Jobs, tmp_path: Path
) -> None:
    images = [tmp_path / f"{number}.png" for number in range(200)]
    for some in ((), images[:1], images, images, ()):  # a single one is too few to judge by
        find_way(run, CPU, some)
    assert [len(job["images"]) for job in jobs] == [0, 64]


def test_a_dataset_that_is_elsewhere_is_measured_on(run: Path, jobs: Jobs, tmp_path: Path) -> None:
    moved = tiny_recipe().data.model_copy(update={"root": tmp_path})
    for data in (None, moved, moved):
        find_way(run, CPU, data=data)
    assert [job["data"] and job["data"]["root"] for job in jobs] == [None, str(tmp_path)]


def test_a_cache_that_cannot_be_written_means_fp32(run: Path) -> None:
    cache_root().parent.mkdir(exist_ok=True)
    cache_root().write_text("in the way, as a read-only folder is")
    line = check_labels(run, int8=False)
    assert line.startswith("fast: fp32, since int8 could not be tried: cannot")


def test_a_killed_measurement_means_fp32(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_python = fast.run_measurement
    code = f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})"
    monkeypatch.setattr(
        fast, "run_measurement", lambda _, progress: run_python(["-c", code], progress)
    )
    line = check_labels(run, int8=False)
    assert line.endswith("int8 could not be tried: the measurement was killed (SIGKILL)")


def test_progress_and_errors_of_the_other_process_are_passed_on() -> None:
    recorder = ProgressRecorder()
    code = (
        'print(\'["start", 3, "fast"]\'); print(\'noise\'); print(\'["status", "here"]\');'
        "print('[1]'); print('the reason'); raise SystemExit(2)"
    )
    with pytest.raises(OutputError, match="the reason"):
        fast.run_measurement(["-c", code], recorder)
    assert recorder.lines == ["start 3", "here"]


def test_an_export_runs_as_it_is(exported: Path) -> None:
    recorder = ProgressRecorder()
    assert open_fast(exported, CPU, progress=recorder).how == "OpenVINO fp32"
    assert recorder.lines == [f"fast: {INT8} is an export already, and runs as it is"]


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
        (0.99, 0.600, 0.700, True),
        (0.99, 0.600, 0.0, False),
    ],
)
def test_agreement_and_score_have_limits(
    same: float, before: float | None, after: float | None, good: bool
) -> None:
    assert Agreement(same=same, before=before, after=after).is_good is good


def test_the_score_counts_where_labels_are_known() -> None:
    info = tiny_network(NETWORK).info
    truth_hw = np.array([[0, 1], [1, 255]], np.uint8)
    images = [ProbeImage(image_hwc=smooth_image(1), label_hw=truth_hw)]
    right, wrong = torch.tensor([[0, 1], [1, 1]]).byte(), torch.tensor([[0, 1], [0, 1]]).byte()
    found = compare(images, [right], [wrong], info)
    assert found.same == 0.75
    assert found.before == 1.0
    assert found.after == 0.5
    assert compare([ProbeImage(image_hwc=smooth_image(1))], [right], [wrong], info).after is None


def test_images_at_hand_serve_where_the_dataset_is_not_here(tmp_path: Path) -> None:
    info = tiny_network(NETWORK).info
    assert find_images(info, ())[1].endswith("of scenes val")  # this network's own dataset
    data = info.recipe.data.model_copy(update={"name": "unknown"})
    info = replace(info, recipe=info.recipe.model_copy(update={"data": data}))
    paths = [tmp_path / f"{number}.png" for number in range(6)]
    for number, path in enumerate(paths[1:]):
        Pillow.fromarray(smooth_image(number)).save(path)
    paths[0].write_text("no image")
    images, origin = find_images(info, paths)
    assert (len(images), origin) == (5, "3 images at hand")


def job_of(run: Path, tmp_path: Path) -> Job:
    return Job(source=run, folder=fast.way_folder(run))


@pytest.mark.parametrize(
    ("error", "kept"), [(RuntimeError("no such\nluck"), True), (OSError(28, "No space"), False)]
)
def test_a_full_disk_is_no_reason_to_give_int8_up(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, kept: bool
) -> None:
    def fail(*_: object) -> str:
        raise error

    monkeypatch.setattr(measuring, "quantise_checked", fail)
    if kept:
        assert measure(job_of(run, tmp_path)).text.endswith("does not pay here: no such")
    else:
        with pytest.raises(OutputError, match="No space"):
            measure(job_of(run, tmp_path))
    assert (fast.way_folder(run) / CHOICE).exists() is kept
    assert not list(cache_root().rglob("*.part"))


def test_a_killed_move_leaves_nothing_that_is_read(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring, "quantise_checked", lambda *_: "int8")
    monkeypatch.setattr(measuring, "hash_export", lambda _: "digest")
    monkeypatch.setattr(os, "rename", kill)
    with pytest.raises(KeyboardInterrupt):
        measure(job_of(run, tmp_path))
    assert not fast.way_folder(run).exists()


@pytest.mark.slow
@pytest.mark.timeout(1800)  # it exports, quantises and measures
def test_a_real_measurement_keeps_labels_and_is_remembered(run: Path) -> None:
    segment = Predictor.from_run(run, device="cpu", fast=True)
    plain = Predictor.from_run(run, device="cpu")
    image_hwc = smooth_image(4, 50, 70)
    assert np.mean(segment(image_hwc).label_hw == plain(image_hwc).label_hw) >= 0.95
    kept = [path.stat().st_mtime_ns for path in cache_root().rglob(CHOICE)]
    assert len(kept) == 1
    find_way(run, CPU)
    assert [path.stat().st_mtime_ns for path in cache_root().rglob(CHOICE)] == kept


# The verbs


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


@pytest.mark.parametrize(("many", "notes"), [(5, 1), (6, 0)])
def test_fast_is_suggested_for_many_images(
    run: Path,
    photos: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    many: int,
    notes: int,
) -> None:
    monkeypatch.setattr(predict_module, "MANY_IMAGES", many)
    assert main(["predict", str(run), str(photos), "--json", "--device=cpu"]) == 0
    assert capsys.readouterr().err.count("--fast") == notes


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


def test_a_server_runs_fast(run: Path, jobs: Jobs) -> None:
    pytest.importorskip("uvicorn")
    recorder = ProgressRecorder()
    server = open_server(run, port=0, device="cpu", fast=True, progress=recorder)
    server.listener.close()
    assert recorder.lines == [f"fast: {TEXT}; kept in {cache_root() / FAST}"]


def test_several_processes_do_not_evaluate_fast(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["evaluate", str(run), "--fast"]) == 2
    assert "leave out torchrun" in capsys.readouterr().err
