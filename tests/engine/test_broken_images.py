"""An image that cannot be read, in training or in validation, on one process or on two.

It is named, all processes end, and once it is repaired the run resumes as if nothing had happened.
"""

from pathlib import Path
from typing import Any

import pytest

from reconet.cli import main
from reconet.data import open_dataset
from reconet.data.dataset import FileDataset, share_images
from reconet.engine import Inputs, read_log
from tests.data.trees import make_tree
from tests.launch import assert_same_run, finish, last, start, weights

SETTINGS = [
    "--device=cpu",
    "--set=data.name=camvid",
    "--set=data.crop=48",
    "--set=data.base_size=48",
    "--set=data.workers=0",
    "--set=model.backbone=resnet18",
    "--set=model.width=0.125",
    "--set=model.weights=null",
    "--set=model.rank=2",
    "--set=train.batch=2",
    "--set=train.steps=4",
    "--set=train.eval_every=2",
    "--set=train.save_every=100",
    "--set=train.log_every=1",
    "--set=train.deterministic=true",
]


def arguments(data: Path, out: Path, *more: str) -> list[str]:
    return ["train", "folder/reconet", f"--set=data.root={data}", f"--out={out}", *SETTINGS, *more]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    make_tree("camvid", tmp_path / "data")
    return tmp_path / "data"


def cut_off(data: Path, split: str, which: int) -> tuple[Path, bytes]:
    path = sorted(data.rglob(f"{split}/*.png"))[which]
    content = path.read_bytes()
    path.write_bytes(content[:200])
    return path, content


@pytest.mark.parametrize("split", ["train", "val"])
def test_the_work_is_kept_and_resumes_when_the_image_is_repaired(
    split: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(data, tmp_path / "whole")) == 0
    path, content = cut_off(data, split, 0)
    capsys.readouterr()
    for _ in range(2):
        assert main(arguments(data, tmp_path / "run", "--resume")) == 2
        assert str(path) in capsys.readouterr().err
    assert (tmp_path / "run" / "last.pt").is_file()
    path.write_bytes(content)
    assert main(arguments(data, tmp_path / "run", "--resume")) == 0
    assert_same_run(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize("split", [pytest.param("train", marks=pytest.mark.slow), "val"])
def test_two_processes_end_together_and_one_of_them_says_why(
    split: str, data: Path, tmp_path: Path
) -> None:
    path, _ = cut_off(data, split, -1)
    code, out, err = finish(start(["reconet", *arguments(data, tmp_path / "run")], processes=2))
    assert code != 0, out + err
    assert err.count(f"reconet: cannot read {path}") == 1, err
    assert last(tmp_path / "run")["step"] == (2 if split == "val" else last_step(tmp_path / "run"))


def last_step(directory: Path) -> int:
    return max((int(line["step"]) for line in read_log(directory)), default=0)


def test_a_validation_may_leave_images_out_and_says_how_many(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut_off(data, "val", 0)
    assert main(arguments(data, tmp_path / "run", "--set=data.on_error=skip")) == 0
    assert "validation left out 1 image" in capsys.readouterr().err
    assert [line["skipped"] for line in read_log(tmp_path / "run") if line["kind"] == "val"] == [
        1,
        1,
    ]


def test_a_stop_in_a_validation_does_not_wait_for_its_end(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(arguments(data, tmp_path / "whole")) == 0
    stopped: list[bool] = []

    def interrupted(self: Inputs, model: Any, stop: Any, progress: Any) -> Any:
        if not stopped:
            stopped.append(True)
            stop.signal = 15
        return validate(self, model, stop, progress)

    validate = Inputs.validate
    monkeypatch.setattr(Inputs, "validate", interrupted)
    assert main(arguments(data, tmp_path / "run")) == 128 + 15
    assert not [line for line in read_log(tmp_path / "run") if line["kind"] == "val"]
    assert last(tmp_path / "run")["step"] == 2
    assert main(arguments(data, tmp_path / "run", "--resume")) == 0
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_where_validation_images_are_trained_on_the_last_network_is_kept(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--set=data.val_split=train", "--set=train.steps=6", "--set=optim.lr=1e-12"]
    assert main(arguments(data, tmp_path / "run", *more)) == 0
    assert "also trained on" in capsys.readouterr().err
    from safetensors import safe_open

    with safe_open(tmp_path / "run" / "best.safetensors", "pt") as file:
        # With such a rate none is much better than the first.
        assert file.metadata()["step"] == "6"
    assert weights(tmp_path / "run")


def test_trainval_shares_images_with_val_and_train_does_not(tmp_path: Path) -> None:
    make_tree("voc12", tmp_path)
    train, val, trainval = (
        open_dataset("voc12", split, tmp_path, {}) for split in ("train", "val", "trainval")
    )
    assert isinstance(val, FileDataset)
    assert share_images(trainval, val)
    assert not share_images(train, val)
