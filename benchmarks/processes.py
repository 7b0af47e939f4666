"""Measure how much speed two processes of one training keep on this machine, and what takes it.

    .venv/bin/python -m benchmarks.processes
    .venv/bin/python -m benchmarks.processes --network demo --rounds 1

Trainings take turns, a round after another: two that do not know each other, which is all that the
machine can do, and two processes of one training, started by torchrun. The latter runs again with
parts of the exchange left out: what becomes faster is what that part costs. Such a training is
wrong, and only its speed is read. Each process has one thread and the same images a step.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from unittest.mock import patch

from reconet.cli import main as reconet
from reconet.engine import read_log

COMMON = ["train.save_every=1000", "train.eval_every=1000", "train.log_every=1", "data.workers=0"]
COMMON += ["data.options.val=2", "data.options.train=64"]
SHARES = {"resnet50": 4, "demo": 8}  # images of each process in a step
SETTINGS = {
    "resnet50": [
        "model.backbone=resnet50",
        "model.width=1",
        "model.rank=64",
        "data.crop=192",
        "data.base_size=192",
        "data.options.size=[192, 192]",
    ],
    "demo": [],
}
WARM_UP = 2  # steps
APART = "two trainings apart"
BOTH = "two processes of one training"
# Which parts of the exchange are left out. Losses are still summed: both wait for each other.
LEFT_OUT = {
    "... without batch norm's exchange": ("norms",),
    "... without the exchange of gradients": ("gradients",),
    "... without both": ("norms", "gradients"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Plain)
    parser.add_argument("--network", choices=SETTINGS, default="resnet50")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--train", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.add_argument("--left-out", nargs="*", default=[], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        with _leave_out(arguments.left_out):
            sys.exit(reconet(arguments.train))
    rounds = []
    for number in range(arguments.rounds):
        rounds.append(measure_round(arguments.network, arguments.steps))
        print(f"round {number + 1}: {json.dumps(rounds[-1])}", file=sys.stderr)
    print_table(rounds)


class _Plain(argparse.RawDescriptionHelpFormatter):
    """Prints the description as it is."""


@contextmanager
def _leave_out(parts: list[str]) -> Iterator[None]:
    with ExitStack() as stack:
        if "norms" in parts:
            keep = "reconet.engine.setup.synchronise_batchnorm"
            stack.enter_context(patch(keep, lambda model, processes: model))
        if "gradients" in parts:
            keep = "reconet.engine.loop.distribute"
            stack.enter_context(patch(keep, lambda model, processes: model))
        yield


def measure_round(network: str, steps: int) -> dict[str, float]:
    """Return images a second of every training."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        pair = [place / "left", place / "right"]
        for process in [start_training(out, network, steps, 1) for out in pair]:
            finish(process)
        speeds = {APART: sum(images_per_second(out) for out in pair)}
        for number, (name, parts) in enumerate({BOTH: (), **LEFT_OUT}.items()):
            out = place / str(number)
            finish(start_training(out, network, steps, 2, parts))
            speeds[name] = images_per_second(out)
    return speeds


def start_training(
    out: Path, network: str, steps: int, processes: int, left_out: tuple[str, ...] = ()
) -> subprocess.Popen[str]:
    launcher = [sys.executable, "-m"]
    if processes > 1:
        launcher += ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m"]
    settings = [*COMMON, *SETTINGS[network], f"train.steps={steps + WARM_UP}"]
    settings += [f"train.batch={SHARES[network] * processes}"]
    words = ["train", "scenes/reconet", f"--out={out}", "--device=cpu"]
    own = ["benchmarks.processes", "--left-out", *left_out, "--train"]
    return subprocess.Popen(
        [*launcher, *own, *words, *(f"--set={setting}" for setting in settings)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    """Wait for a training. If it fails, end with its last words."""
    _, words = process.communicate()
    if process.returncode != 0:
        sys.exit(f"a training failed:\n{words[-2000:]}")


def images_per_second(out: Path) -> float:
    """Return images per second, without the first steps, when the machine is warming up."""
    lines = [line for line in read_log(out) if line["kind"] == "train"]
    return float(median(line["images_per_second"] for line in lines[WARM_UP:]))


def print_table(rounds: list[dict[str, float]]) -> None:
    """Print speeds as shares of two trainings apart, round by round, as a table for docs."""
    heads = [f"round {number + 1}" for number in range(len(rounds))]
    print(f"| training | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for name in rounds[0]:
        shares = [f"{100 * speeds[name] / speeds[APART]:.0f} %" for speeds in rounds]
        print(f"| {name} | {' | '.join(shares)} |")


if __name__ == "__main__":
    main()
