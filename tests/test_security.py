"""Nothing in a file of a stranger is run, written elsewhere, or fills the memory."""

import ast
import json
import os
import pickle
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from reconet.cli import main
from reconet.data.images.read import read_mat
from reconet.data.prepare import Drawing
from reconet.data.sets.coco import plan_coco
from reconet.engine import run_weights
from reconet.errors import CheckpointError, DataError
from reconet.models import load_trained
from reconet.recipes import dump_recipe, find_recipe, override
from tests.launch import ENVIRONMENT

PACKAGE = Path(__file__).parent.parent / "reconet"
TINY = ["--set=train.steps=1", "--set=train.batch=2", "--device=cpu"]


class Evil:
    """An object that runs a command when a careless reader unpickles it."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.system, (f"touch '{self.proof}'",))


def evil_files(folder: Path) -> dict[str, Path]:
    """Write pickles that run a command: by torch.save, by its old format, and bare."""
    proof, files = folder / "owned", {}
    ways: dict[str, Callable[[Path], object]] = {
        "zip": lambda path: torch.save({"format": 1, "model": Evil(proof)}, path),
        "legacy": lambda path: torch.save(
            {"format": 1, "x": Evil(proof)}, path, _use_new_zipfile_serialization=False
        ),
        "bare": lambda path: path.write_bytes(pickle.dumps(Evil(proof))),
    }
    for name, save in ways.items():
        files[name] = folder / f"{name}.pt"
        save(files[name])
    return files


def fail_in_one_line(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that must fail, and return its one line of error."""
    assert main(words) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1, err
    return err


@pytest.mark.parametrize("kind", ["zip", "legacy", "bare"])
def test_a_malicious_checkpoint_is_refused_by_every_door_and_runs_nothing(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = evil_files(tmp_path)[kind]
    out = tmp_path / "run"
    train = ["train", "scenes/tiny", f"--out={out}", *TINY]
    fail_in_one_line(capsys, *train, f"--set=train.init_from={evil}")
    fail_in_one_line(capsys, *train, f"--set=model.weights={evil}")
    fail_in_one_line(capsys, "evaluate", str(evil), "--device=cpu")
    assert main([*train, "--set=model.width=0.125"]) == 0
    capsys.readouterr()
    (out / "last.pt").write_bytes(evil.read_bytes())
    err = fail_in_one_line(capsys, "train", str(out), "--resume", "--device=cpu")
    assert f"cannot read {out}/last.pt" in err
    assert not (tmp_path / "owned").exists()
    careless = f"import torch; torch.load({str(evil)!r}, weights_only=False)"
    words = [sys.executable, "-c", careless]
    subprocess.run(words, env=ENVIRONMENT, capture_output=True, check=False)
    assert (tmp_path / "owned").exists(), "the file is harmless, and the test proves nothing"


def calls(path: Path) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]


def test_nothing_in_the_package_reads_pickles_or_runs_text() -> None:
    # Each torch.load has weights_only=True, and functions that run data are not called at all.
    forbidden = {"eval", "exec", "pickle.load", "pickle.loads", "yaml.load", "marshal.loads"}
    loads = 0
    for path in PACKAGE.rglob("*.py"):
        for call in calls(path):
            name = ast.unparse(call.func)
            assert name not in forbidden, f"{path}: {name}"
            assert not any(
                k.arg == "allow_pickle" and ast.unparse(k.value) != "False" for k in call.keywords
            ), path
            assert not any(k.arg == "shell" for k in call.keywords), path
            if name == "torch.load":
                loads += 1
                options = {k.arg: ast.unparse(k.value) for k in call.keywords}
                assert options.get("weights_only") == "True", path
    assert loads >= 2


def test_a_zip_bomb_in_place_of_a_checkpoint_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\0" * 10**8)
    with pytest.raises(CheckpointError, match="cannot read"):
        run_weights(path)


def test_a_bit_that_flipped_on_disk_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    torch.save({"format": 1, "model": {"w": torch.zeros(1000)}, "ema": None}, path)
    data = bytearray(path.read_bytes())
    data[data.index(b"\0" * 2000) + 1000] = 1  # in the middle of the numbers
    path.write_bytes(data)
    assert torch.load(path, weights_only=True)["model"]["w"].any(), "torch alone does not notice"
    with pytest.raises(CheckpointError, match="damaged"):
        run_weights(path)


def trained_file(path: Path, **changes: str) -> Path:
    recipe = override(find_recipe("scenes/tiny"), "model.aux", "false")
    metadata = {
        "format": "1",
        "recipe": dump_recipe(recipe),
        "classes": '["a"]',
        "palette": "[[1, 2, 3]]",
    }
    save_file({"w": torch.zeros(3)}, path, metadata | {"step": "1", "score": "{}"} | changes)
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": "[]"}, "classes"),
        ({"classes": '"abc"'}, "classes"),
        ({"classes": "[" * 100_000}, "classes"),
        ({"classes": json.dumps(["x"] * 10**5)}, "classes"),
        ({"palette": "[[1, 2]]"}, "palette"),
        ({"palette": "[[1, 2, 300]]"}, "palette"),
        ({"palette": "[]"}, "0 colours for 1 class"),
        ({"step": "-1"}, "step"),
        ({"step": "x"}, "step"),
        ({"score": "[]"}, "score"),
        ({"recipe": "{}"}, "data"),
        ({"recipe": "7"}, "recipe"),
        ({"format": "2"}, "has the format '2', and this version reads 1"),
    ],
)
def test_metadata_of_strangers_is_checked(
    changes: dict[str, str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trained_file(tmp_path / "a.safetensors", **changes)
    assert message in fail_in_one_line(capsys, "evaluate", str(path), "--device=cpu")


def test_a_small_file_cannot_ask_for_a_huge_network(tmp_path: Path) -> None:
    recipe = find_recipe("voc12/reconet_r101")
    for change in ("model.width=16", "model.rank=32768", "data.crop=32768"):
        recipe = override(recipe, *change.split("="))
    path = trained_file(tmp_path / "a.safetensors", recipe=dump_recipe(recipe))
    with pytest.raises(CheckpointError, match="asks for a larger one"):
        load_trained(path)


def test_a_mat_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    side = 20_000  # a matrix of 20,000 x 20,000 zeros in 400 kB
    name, dims = b"S", np.array([side, side], "<i4").tobytes()
    flags = np.array([6, 8, 9, 0], "<u4").tobytes()  # class uint8
    head = flags + np.array([5, 8], "<u4").tobytes() + dims
    head += np.array([1, 1], "<u4").tobytes() + name.ljust(8, b"\0")
    head += np.array([2, side * side], "<u4").tobytes()
    packer = zlib.compressobj(9)
    body = packer.compress(np.array([14, len(head) + side * side], "<u4").tobytes() + head)
    for _ in range(side):
        body += packer.compress(b"\0" * side)
    body += packer.flush()
    text = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    path = tmp_path / "bomb.mat"
    path.write_bytes(text + np.array([15, len(body)], "<u4").tobytes() + body)
    with pytest.raises(DataError, match="decompression bomb"):
        read_mat(path, "S")


def test_names_in_a_json_cannot_leave_the_folder_that_is_written(tmp_path: Path) -> None:
    for name in ("val2017", "annotations", "train2017"):
        (tmp_path / "coco" / name).mkdir(parents=True)
    images = [{"id": 1, "file_name": "../../../evil.jpg", "height": 40, "width": 50}]
    shape = {"image_id": 1, "category_id": 1, "segmentation": [[0, 0, 49, 0, 49, 39, 0, 39]]}
    content = json.dumps({"images": images, "annotations": [shape]})
    for split in ("train", "val"):
        (tmp_path / "coco" / "annotations" / f"instances_{split}2017.json").write_text(content)
    plan = plan_coco(tmp_path / "coco")
    assert plan.jobs
    for job in plan.jobs:
        assert isinstance(job.source, Drawing)
        assert (tmp_path / "coco").resolve() in job.target.resolve().parents
