"""--fast: correct labels and one line, whatever happens to the measurement and to what is kept."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reconet.errors import CheckpointError, OutputError, RecipeError
from reconet.fast.store import keep
from reconet.inference import Predictor, open_network
from reconet.inference.fast import CHOICE, FastChoice, find_fast, open_fast
from reconet.inference.fast import choice as choice_module
from reconet.inference.fast import find as find_module
from reconet.models.trained import load_trained, save_trained
from reconet.system.run_files import BEST
from reconet.system.user_cache import FAST, cache_root
from tests.factories import ProgressRecorder, smooth_image, tiny_recipe

CPU = torch.device("cpu")
Jobs = list[dict[str, Any]]  # what the measurements were asked for


def fail_with(action: Callable[[], None], patch: pytest.MonkeyPatch) -> None:
    patch.setattr(find_module, "_run", lambda arguments, progress: action())


def check_labels(run: Path, *, fast: bool) -> str:
    """Check that --fast gives the labels of eager fp32, with one line. Return the line."""
    recorder = ProgressRecorder()
    segment = Predictor.from_run(run, device="cpu", fast=True, progress=recorder)
    plain = Predictor.from_run(run, device="cpu")
    for size in ((30, 44), (61, 40), (5, 9)):
        same_hw = segment(smooth_image(1, *size)).label_hw == plain(smooth_image(1, *size)).label_hw
        assert same_hw.mean() > 0.999
    assert segment.network.how.startswith("ONNX Runtime" if fast else "torch fp32")
    (line,) = recorder.lines
    assert "\n" not in line
    return line


def test_the_second_call_measures_nothing(run: Path, jobs: Jobs) -> None:
    assert check_labels(run, fast=True) == (
        f"fast: ONNX Runtime fp32, 2.00 times as fast; kept in {run / FAST}"
    )
    assert check_labels(run, fast=True).startswith("fast: ONNX Runtime fp32")
    assert len(jobs) == 1


def test_images_smaller_than_an_export_takes_go_through_the_network(run: Path, jobs: Jobs) -> None:
    image_bchw = torch.from_numpy(smooth_image(1, 7, 9)).permute(2, 0, 1)[None].contiguous()
    small = open_fast(run, CPU).forward(image_bchw)
    torch.testing.assert_close(small, open_network(run, CPU).forward(image_bchw))


def test_changed_weights_are_measured_again(run: Path, jobs: Jobs) -> None:
    find_fast(run, CPU)
    trained = load_trained(run)
    with torch.no_grad():
        trained.model.classify.weight += 1
    save_trained(run / BEST, trained)
    find_fast(run, CPU)
    assert len(jobs) == 2
    assert len(list((run / FAST).glob(f"*/{CHOICE}"))) == 1


def test_other_packages_are_measured_again(
    run: Path, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_fast(run, CPU)
    monkeypatch.setattr(choice_module, "_version", lambda package: f"{package} 99")
    find_fast(run, CPU)
    assert len(jobs) == 2


@pytest.mark.parametrize("name", ["network.onnx", CHOICE])
def test_a_damaged_file_is_measured_again(run: Path, jobs: Jobs, name: str) -> None:
    (path,) = [path / name for path in [find_fast(run, CPU).folder] if path]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)
    line = check_labels(run, fast=True)
    assert line.endswith(f"(measured again: the kept file was damaged); kept in {run / FAST}")
    assert len(jobs) == 2


def test_a_run_that_cannot_be_written_is_kept_in_the_cache(run: Path, jobs: Jobs) -> None:
    (run / FAST).write_text("in the way, as a read-only folder is")
    assert check_labels(run, fast=True).endswith(f"kept in {cache_root() / FAST}")
    check_labels(run, fast=True)
    assert len(jobs) == 1


def test_a_file_is_kept_in_the_cache(run: Path, jobs: Jobs) -> None:
    assert check_labels(run / BEST, fast=True).endswith(f"kept in {cache_root() / FAST}")
    assert not (run / FAST).exists()


def test_a_full_disk_means_eager(run: Path, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(run)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    line = check_labels(run, fast=False)
    assert line.startswith("fast: eager fp32, since nothing else could be tried: cannot write")
    assert "No space left on device" in line
    assert not jobs


def test_a_killed_measurement_means_eager_and_is_tried_again(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_python = find_module._run

    def kill_itself() -> None:
        code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
        run_python(["-c", code], ProgressRecorder())

    fail_with(kill_itself, monkeypatch)
    line = check_labels(run, fast=False)
    assert line.endswith("nothing else could be tried: the measurement was killed (SIGKILL)")
    assert find_fast(run, CPU).folder is None


def test_half_of_a_measurement_is_never_used(run: Path, jobs: Jobs) -> None:
    folder = find_fast(run, CPU).folder
    assert folder is not None
    os.rename(folder, folder.with_name(f".{folder.name}.0123.part"))
    find_fast(run, CPU)
    assert len(jobs) == 2


def test_progress_and_errors_of_the_other_process_are_passed_on() -> None:
    recorder = ProgressRecorder()
    code = (
        'print(\'["start", 3, "fast"]\'); print(\'noise\'); print(\'["status", "here"]\');'
        "print('[1]'); print('the reason'); raise SystemExit(2)"
    )
    with pytest.raises(OutputError, match="the reason"):
        find_module._run(["-c", code], recorder)
    assert recorder.lines == ["start 3", "here"]


def test_without_images_it_is_measured_again_once_there_are_some(
    run: Path, jobs: Jobs, tmp_path: Path
) -> None:
    find_fast(run, CPU)
    find_fast(run, CPU, [tmp_path / "one.png"])  # too few to judge by
    assert len(jobs) == 1
    images = [tmp_path / f"{number}.png" for number in range(200)]
    find_fast(run, CPU, images)
    find_fast(run, CPU, images)
    find_fast(run, CPU)
    assert len(jobs) == 2
    assert len(jobs[1]["images"]) == 64


def test_a_dataset_that_is_elsewhere_is_measured_on(run: Path, jobs: Jobs, tmp_path: Path) -> None:
    find_fast(run, CPU)
    moved = tiny_recipe().data.model_copy(update={"root": tmp_path})
    find_fast(run, CPU, data=moved)
    find_fast(run, CPU, data=moved)
    assert [job["data"] and job["data"]["root"] for job in jobs] == [None, str(tmp_path)]


def test_an_export_runs_as_it_is(exported: Path) -> None:
    recorder = ProgressRecorder()
    network = open_fast(exported, CPU, progress=recorder)
    assert network.how == "ONNX Runtime fp32"
    assert recorder.lines == ["fast: model.onnx is an export already, and runs as it is"]


def test_machine_code_beside_a_run_is_not_opened(run: Path) -> None:
    choice = FastChoice(way="compiled", text="", machine="m")
    folder = run / FAST / ("a" * 20)
    keep(choice, None, folder)
    assert choice_module.read_choice(folder) is None


def test_a_choice_cannot_lead_out_of_its_folder(run: Path) -> None:
    folder = run / FAST / ("a" * 20)
    keep(FastChoice(way="exported", text="", machine="m", file=f"../../{BEST}"), None, folder)
    with pytest.raises(CheckpointError, match="damaged"):
        choice_module.read_choice(folder)


def test_fast_chooses_the_precision(run: Path) -> None:
    with pytest.raises(RecipeError, match="precision"):
        Predictor.from_run(run, fast=True, precision="bf16")


def test_a_signal_has_a_name() -> None:
    with pytest.raises(OutputError, match="SIGTERM"):
        find_module._run(
            ["-c", f"import os; os.kill(os.getpid(), {int(signal.SIGTERM)})"], ProgressRecorder()
        )


@pytest.mark.slow
@pytest.mark.timeout(1800)  # it exports, quantises and measures
def test_a_real_measurement_keeps_labels_and_is_remembered(run: Path) -> None:
    line = check_first(run)
    assert line.startswith("fast: ")
    (path,) = (run / FAST).glob(f"*/{CHOICE}")
    before = path.stat().st_mtime_ns
    assert check_first(run) == line
    assert path.stat().st_mtime_ns == before


def check_first(run: Path) -> str:
    recorder = ProgressRecorder()
    segment = Predictor.from_run(run, device="cpu", fast=True, progress=recorder)
    plain = Predictor.from_run(run, device="cpu")
    image_hwc = smooth_image(4, 50, 70)
    assert np.mean(segment(image_hwc).label_hw == plain(image_hwc).label_hw) >= 0.95
    return recorder.lines[-1]
