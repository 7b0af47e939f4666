"""Measure how much speed the exchange of gradients between two processes costs on this machine.

    OMP_NUM_THREADS=1 .venv/bin/python -m tools.measure_processes

Three trainings take turns: one process alone; two that do not know each other, which is all that
the machine can do; and two processes of one training, started by torchrun. Each process has one
thread, and all have the same steps and images per step. Efficiency is the third over the second.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from reconet.engine import read_log

ROUNDS, STEPS, SHARE = 3, 40, 8
SETTINGS = ["train.save_every=1000", "train.eval_every=1000", "train.log_every=5"]
SETTINGS += ["data.workers=0", "data.options.val=2", f"train.steps={STEPS}"]


def start_training(out: Path, processes: int) -> subprocess.Popen[bytes]:
    launcher = [sys.executable, "-m"]
    if processes > 1:
        launcher += ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m"]
    settings = [*SETTINGS, f"train.batch={SHARE * processes}"]
    words = ["reconet", "train", "scenes/reconet", f"--out={out}", "--device=cpu"]
    return subprocess.Popen(
        [*launcher, *words, *(f"--set={setting}" for setting in settings)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.DEVNULL,
    )


def images_per_second(out: Path) -> float:
    """Return images per second, without the first lines, when the machine is warming up."""
    lines = [line for line in read_log(out) if line["kind"] == "train"]
    return float(median(line["images_per_second"] for line in lines[2:]))


def measure_round(place: Path) -> tuple[float, float, float]:
    start_training(place / "alone", 1).wait()
    for process in [start_training(place / "left", 1), start_training(place / "right", 1)]:
        process.wait()
    start_training(place / "both", 2).wait()
    apart = images_per_second(place / "left") + images_per_second(place / "right")
    return images_per_second(place / "alone"), apart, images_per_second(place / "both")


def main() -> None:
    rows = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as place:
            rows.append(measure_round(Path(place)))
    for alone, apart, both in rows:
        print(
            f"one process {alone:.1f} img/s; two apart {apart:.1f}; two of one training "
            f"{both:.1f}: {both / alone:.2f} times one process, "
            f"{100 * both / apart:.0f} % of two apart"
        )


if __name__ == "__main__":
    main()
