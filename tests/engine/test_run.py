"""A run from outside: what a user does wrong is one line, and nothing is lost."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import reconet.engine.run
from reconet.cli import main
from reconet.engine.display import Display
from reconet.engine.rundir import Log, locked, read_log
from reconet.errors import TrainingError
from reconet.recipes import RECIPES, find_recipe
from reconet.recipes.overrides import apply_overrides
from reconet.system.distributed import World
from tests.data.trees import OPTIONS, make_tree

TINY = [
    "--set=train.steps=2",
    "--set=train.batch=2",
    "--set=train.micro_batch=1",
    "--set=data.crop=64",
    "--set=data.base_size=64",
    "--set=data.workers=0",
    "--set=model.width=0.125",
    "--set=model.weights=null",
    "--set=model.rank=2",
    "--device=cpu",
]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def one_recipe_per_dataset() -> list[object]:
    seen: set[str] = set()
    cases: list[object] = []
    for name in sorted(RECIPES):
        first = name.split("/")[0] not in seen
        seen.add(name.split("/")[0])
        cases.append(name if first else pytest.param(name, marks=pytest.mark.slow))
    return cases


@pytest.mark.parametrize("name", one_recipe_per_dataset())
def test_every_recipe_trains_on_a_tree_of_its_dataset(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = find_recipe(name).data.name
    make_tree(dataset, tmp_path / "data")
    options = [
        f"--set=data.options.{k}={json.dumps(v)}" for k, v in OPTIONS.get(dataset, {}).items()
    ]
    code, _, err = run(
        capsys,
        *("train", name, f"--set=data.root={tmp_path / 'data'}", f"--out={tmp_path / 'run'}"),
        *TINY,
        *options,
    )
    assert code == 0, err
    kinds = [line["kind"] for line in read_log(tmp_path / "run")]
    assert kinds == ["train", "val"]
    assert (tmp_path / "run" / "predictions.png").is_file()
    as_in_training = ["--mode=whole", "--relative-to=original", "--device=cpu", "--json"]
    code, out, _ = run(capsys, "evaluate", str(tmp_path / "run"), *as_in_training)
    assert code == 0
    last_val = read_log(tmp_path / "run")[-1]
    assert json.loads(out)["figures"]["miou"] == pytest.approx(last_val["miou"], abs=0.01)


def test_a_run_is_not_overwritten_and_another_recipe_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "scenes/tiny", f"--out={tmp_path / 'run'}", *TINY]
    assert run(capsys, *arguments)[0] == 0
    before = (tmp_path / "run" / "last.pt").read_bytes()
    code, _, err = run(capsys, *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert "already holds a run; add --resume" in err
    code, _, err = run(capsys, *arguments, "--resume", "--set=optim.lr=0.5")
    assert (code, err.count("\n")) == (2, 1)
    assert "optim.lr is 0.02 there and 0.5 here" in err
    assert (tmp_path / "run" / "last.pt").read_bytes() == before


def test_a_start_that_failed_does_not_stand_in_the_way_of_the_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "scenes/tiny", f"--out={tmp_path / 'run'}", *TINY]
    assert run(capsys, *arguments, "--set=model.context=danett")[0] == 2
    assert run(capsys, *arguments)[0] == 0


def test_a_folder_with_other_things_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    code, _, err = run(capsys, "train", "scenes/tiny", f"--out={tmp_path}", *TINY)
    assert code == 2
    assert "is not empty" in err


def test_a_second_process_in_a_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = (
        "import sys; from pathlib import Path; from reconet.engine.rundir import locked\n"
        "with locked(Path(sys.argv[1])): print('in', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "in\n"
    result, _, err = run(capsys, "train", "scenes/tiny", f"--out={tmp_path / 'run'}", *TINY)
    assert result == 2
    assert "another process is training in" in err
    holder.kill()  # the lock goes with its process, however it ends
    holder.communicate()
    with locked(tmp_path / "run"):
        pass


def test_a_broken_image_in_the_middle_names_itself_and_keeps_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_tree("camvid", tmp_path / "data")
    broken = sorted((tmp_path / "data").rglob("train/*.png"))[0]
    broken.write_bytes(broken.read_bytes()[:200])
    arguments = ["train", "folder/reconet", *TINY, f"--set=data.root={tmp_path / 'data'}"]
    arguments += ["--set=data.name=camvid", "--set=train.steps=4", "--set=train.save_every=100"]
    code, _, err = run(capsys, *arguments, f"--out={tmp_path / 'run'}")
    assert code == 2
    assert str(broken) in err
    assert "Traceback" not in err
    skipping = [*arguments, "--set=data.on_error=skip", f"--out={tmp_path / 'skip'}"]
    code, _, err = run(capsys, *skipping)
    assert code == 0
    assert f"skipped {broken.stem}" in err


@pytest.mark.parametrize("which", ["train", "val"])
def test_a_split_without_labels_is_refused_before_the_first_step(
    which: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_tree("ade20k", tmp_path / "data")
    arguments = ["train", "ade20k/reconet_r50", *TINY, f"--set=data.root={tmp_path / 'data'}"]
    arguments += [f"--set=data.{which}_split=test", f"--out={tmp_path / 'run'}"]
    code, _, err = run(capsys, *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert "ade20k test has no labels" in err


def test_a_validation_without_a_labelled_pixel_keeps_the_work_and_is_made_up_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_tree("camvid", tmp_path / "data")
    good = {path: path.read_bytes() for path in (tmp_path / "data" / "valannot").iterdir()}
    for path in good:
        with Image.open(path) as label:
            Image.fromarray(np.full(label.size[::-1], 11, np.uint8)).save(path)
    arguments = ["train", "folder/reconet", *TINY, f"--set=data.root={tmp_path / 'data'}"]
    arguments += ["--set=data.name=camvid", f"--out={tmp_path / 'run'}"]
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert err.splitlines()[-1].endswith("camvid val has no labelled pixel to score against.")
    for path, content in good.items():
        path.write_bytes(content)
    assert run(capsys, *arguments, "--resume")[0] == 0
    assert [line["kind"] for line in read_log(tmp_path / "run")] == ["train", "val"]
    assert (tmp_path / "run" / "best.safetensors").is_file()


def test_a_crop_of_one_feature_trains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--set=data.crop=32", "--set=train.micro_batch=null"]
    code, _, err = run(capsys, "train", "scenes/tiny", f"--out={tmp_path / 'run'}", *TINY, *small)
    assert code == 0, err


def test_a_class_that_nobody_saw_is_null_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON has no NaN: other programs refuse it."""
    make_tree("ade20k", tmp_path / "data")
    arguments = ["train", "ade20k/reconet_r50", *TINY, f"--set=data.root={tmp_path / 'data'}"]
    assert run(capsys, *arguments, f"--out={tmp_path / 'run'}")[0] == 0
    text = (tmp_path / "run" / "log.jsonl").read_text()
    assert "NaN" not in text
    iou = read_log(tmp_path / "run")[-1]["iou"]
    assert len(iou) == 150
    assert None in iou
    assert any(isinstance(value, float) for value in iou)


def test_a_log_with_nan_of_an_earlier_version_goes_on_without(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"kind": "val", "step": 2, "iou": [0.5, NaN]}\n')
    assert read_log(tmp_path)[0]["step"] == 2
    Log(tmp_path, 2)
    assert "NaN" not in (tmp_path / "log.jsonl").read_text()
    assert read_log(tmp_path)[0]["iou"] == [0.5, None]


class OneOfTwo(World):
    """The second of two processes, without the first."""

    def total(self, value: torch.Tensor) -> torch.Tensor:
        return value


def test_the_bar_of_a_validation_counts_the_images_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []

    @contextmanager
    def validation(_: Display, images: int) -> Iterator[Callable[[], None]]:
        told.append(images)
        yield lambda: told.append(-1)

    monkeypatch.setattr(Display, "validation", validation)
    recipe = apply_overrides(find_recipe("scenes/tiny"), ["data.options.val=5", "data.workers=0"])
    world = OneOfTwo(rank=1, size=2, device=torch.device("cpu"))
    reconet.engine.run._Run(recipe, tmp_path, world, goes_on=False)._scores()
    assert told == [2, -1, -1]


def test_a_full_disk_keeps_the_last_good_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import reconet.system.files

    arguments = ["train", "scenes/tiny", f"--out={tmp_path / 'run'}", *TINY]
    arguments += ["--set=train.steps=4", "--set=train.save_every=2", "--set=train.eval_every=100"]
    saves = 0
    real = reconet.system.files._write

    def fills_up(path: Path, write: object) -> None:
        nonlocal saves
        if path.name == "last.pt":
            saves += 1
            if saves == 2:
                raise OSError(28, "No space left on device")
        real(path, write)  # type: ignore[arg-type]

    monkeypatch.setattr(reconet.system.files, "_write", fills_up)
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert err.splitlines()[-1].endswith("last.pt: No space left on device.")
    monkeypatch.undo()
    code, _, err = run(capsys, *arguments, "--resume")
    assert code == 0, err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_place_is_said_before_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o500)
    code, _, err = run(capsys, "train", "scenes/tiny", f"--out={tmp_path / 'run'}", *TINY)
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set=optim.lr=0"], "optim.lr"),
        (["--set=data.root=/no", "--set=data.name=voc12", "--set=data.options={}"], "/no"),
        (["--set=data.name=voc13"], "Did you mean 'voc12'?"),
        (["--set=data.train_split=trian"], "Did you mean 'train'?"),
        (["--set=train.init_from=nowhere"], "nowhere"),
        (["--set=train.precision=fp16"], "needs a GPU"),
        (["--set=train.batch=3000"], "needs at least as many images"),
        (["--device=cuda:7"], "no device 'cuda:7'"),
        (["--out=/proc/nowhere/run"], "/proc/nowhere/run"),
    ],
)
def test_what_cannot_start_says_why_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(
        capsys, "train", "scenes/tiny", f"--out={tmp_path / 'run'}", *TINY, *arguments
    )
    assert code == 2
    assert err.count("\n") == 1
    assert message in err


def test_evaluate_explains_what_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, message in {
        str(tmp_path / "nowhere"): "no trained network at",
        __file__: "unknown format of a network",
    }.items():
        code, _, err = run(capsys, "evaluate", path)
        assert (code, err.count("\n")) == (2, 1)
        assert message in err


def test_the_log_forgets_what_the_checkpoint_does_not_know(tmp_path: Path) -> None:
    lines = [{"kind": "train", "step": step} for step in (2, 4, 6)]
    text = "".join(json.dumps(line) + "\n" for line in lines) + '{"kind": "tr'
    (tmp_path / "log.jsonl").write_text(text)
    log = Log(tmp_path, 4)
    log.write(kind="train", step=6, loss=1.0)
    assert [line["step"] for line in read_log(tmp_path)] == [2, 4, 6]
    assert read_log(tmp_path)[-1]["loss"] == 1.0


def test_the_lock_is_for_one_process_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(TrainingError, match="another process"), locked(tmp_path):
        pass


def test_the_sheet_of_predictions_is_a_image(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "train", "scenes/tiny", f"--out={tmp_path / 'run'}", *TINY)[0] == 0
    page_hwc = np.asarray(Image.open(tmp_path / "run" / "predictions.png"))
    assert page_hwc.shape[0] > 200
    assert page_hwc.std() > 10
