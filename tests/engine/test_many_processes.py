"""Two processes compute what one does."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from PIL import Image as Pillow

from reconet.engine import read_log
from tests.launch import TINY_NETWORK, command, finish, last, reached, run, start

# Dropout is drawn by each process for itself, so it is off where bits of one are compared with two.
NO_DROPOUT = ["--set=model.options.dropout=0", "--set=model.aux=false"]
# Pixels and regions, and weights that the processes count together.
ALL_TERMS = [
    "--set=loss.focal=0.5",
    "--set=loss.dice=0.5",
    "--set=loss.lovasz=0.5",
    "--set=loss.class_weights=balanced",
]


def test_two_processes_learn_what_one_does(tmp_path: Path) -> None:
    # DDP, synchronised batch norm and the loss over all pixels: the same mathematics.
    run(command(tmp_path / "one", *NO_DROPOUT, *ALL_TERMS))
    run(command(tmp_path / "two", *NO_DROPOUT, *ALL_TERMS), processes=2)
    counts = [(tmp_path / name / "class_counts.json").read_text() for name in ("one", "two")]
    assert counts[0] == counts[1]
    one, two = read_log(tmp_path / "one"), read_log(tmp_path / "two")
    assert [(x["kind"], x["step"]) for x in one] == [(x["kind"], x["step"]) for x in two]
    losses = [[x["loss"] for x in log if x["kind"] == "train"] for log in (one, two)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0][-1] < losses[0][0]  # and it does learn
    a, b = last(tmp_path / "one")["model"], last(tmp_path / "two")["model"]
    assert isinstance(a, dict)
    assert isinstance(b, dict)
    for key, value in a.items():
        torch.testing.assert_close(value, b[key], atol=2e-4, rtol=2e-3, msg=key)


def test_torchrun_restarts_a_killed_worker_and_the_run_completes(tmp_path: Path) -> None:
    process = start(
        command(tmp_path / "run"), processes=2, torchrun=("--standalone", "--max-restarts=2")
    )
    while not reached(tmp_path / "run", 6):
        time.sleep(0.005)
        assert process.poll() is None
    worker = psutil.Process(process.pid).children()[-1]
    os.kill(worker.pid, signal.SIGKILL)
    code, out, err = finish(process)
    assert code == 0, out + err
    assert last(tmp_path / "run")["step"] == 12
    steps = [line["step"] for line in read_log(tmp_path / "run") if line["kind"] == "train"]
    assert steps == [2, 4, 6, 8, 10, 12]
    assert "another process of this task has ended" in err
    assert "Traceback" not in err


def test_a_stop_of_one_process_stops_all_and_none_says_it_has_finished(tmp_path: Path) -> None:
    process = start(command(tmp_path / "run", "--set=train.steps=2000"), processes=2)
    while not reached(tmp_path / "run", 4):
        time.sleep(0.005)
        assert process.poll() is None
    os.kill(psutil.Process(process.pid).children()[-1].pid, signal.SIGTERM)
    code, out, err = finish(process)
    assert code != 0, out + err
    assert "stopped: " in err
    assert "finished: " not in err
    step = last(tmp_path / "run")["step"]
    assert isinstance(step, int)
    assert step >= read_log(tmp_path / "run")[-1]["step"] >= 4


@pytest.mark.slow
def test_two_nodes_train_together(tmp_path: Path) -> None:
    # Two torchrun agents on one machine are two nodes to torch.
    meet = ("--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:29731", "--rdzv-id=t")
    agents = [start(command(tmp_path / "run"), processes=1, torchrun=meet) for _ in range(2)]
    for agent in agents:
        code, out, err = finish(agent)
        assert code == 0, out + err
    assert last(tmp_path / "run")["step"] == 12


def as_two_machines(*commands: list[str], port: int) -> list[tuple[int, str, str]]:
    """Run one process for each command, as torchrun does on machines of one process."""
    meet = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    own = [{**meet, "RANK": str(n), "GROUP_RANK": str(n), "LOCAL_RANK": "0"} for n in range(2)]
    started = [start(one, environment=extra) for one, extra in zip(commands, own, strict=True)]
    return [finish(process) for process in started]


def test_processes_with_other_images_or_settings_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "run"
    for port, (setting, reason) in enumerate(
        [
            ("data.options.train=24", "images of train of process 1 on "),
            ("optim.lr=0.03", "settings of process 1 on "),
        ],
        start=29741,
    ):
        ends = as_two_machines(command(out), command(out, f"--set={setting}"), port=port)
        for code, _, err in ends:
            assert code == 2, err
            assert err.count("reconet: ") == 1
            assert f"reconet: {reason}" in err
        assert not out.exists()


def test_processes_that_read_labels_in_another_way_are_refused(tmp_path: Path) -> None:
    for folder in ("images/train", "images/val", "masks/train", "masks/val"):
        (tmp_path / "mine" / folder).mkdir(parents=True)
        size = (64, 64, 3) if folder.startswith("images") else (64, 64)
        for number in range(2):
            pixels = np.random.default_rng(number).integers(3, size=size, dtype=np.uint8)
            Pillow.fromarray(pixels).save(tmp_path / "mine" / folder / f"{number}.png")
    mine = [f"--set=data.root={tmp_path / 'mine'}", '--set=data.options.classes=["x","y","z"]']
    words = [
        "reconet",
        "train",
        "folder/reconet",
        *TINY_NETWORK,
        *mine,
        f"--out={tmp_path / 'run'}",
    ]
    other = [*words, '--set=data.options.label_map={"0":0,"1":2,"2":1}']
    for code, _, err in as_two_machines(words, other, port=29744):
        assert code == 2, err
        assert "reconet: settings of process 1 on " in err
