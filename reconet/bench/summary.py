"""Run the benchmarks whose figures the docs quote, several times, and quote the smallest.

A figure is a ratio within one run of a command, so that it means the same on a busy machine. Every
run is a process of its own, as a user starts it. The commands take turns.
"""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from reconet.errors import ReconetError
from reconet.system.progress import SILENT, Progress

MODULE = "reconet bench module --context reconet"
DATA = "reconet bench data"
MODEL = "reconet bench model --rounds 3"
PRETRAINED = 'reconet bench model voc12 --way "OpenVINO int8" --rounds 3'
EVALUATE = "reconet bench evaluate --backbone resnet50 --crop 256 --classes 21 --rounds 1"
FROZEN = "reconet bench train --frozen --steps 5"
R50 = "ResNet-50, 512 x 512"

Values = dict[str, Any]  # what a command prints with --json
Run = Callable[[str], Values]


class BenchError(ReconetError):
    """A benchmark ended with an error."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A ratio that the docs quote: how many times as fast `what` is."""

    what: str
    command: str
    read: Callable[[Values], float | None]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A figure with the ratios of all runs. It has none if this machine cannot run it."""

    what: str
    command: str
    ratios: tuple[float, ...]

    @property
    def smallest(self) -> float | None:
        """Return the figure to quote."""
        return min(self.ratios, default=None)


def _pipeline(workers: int) -> Callable[[Values], float | None]:
    def read(values: Values) -> float | None:
        rows = values["pipelines"]
        chosen = (row for row in rows if (row["name"], row["workers"]) == ("reconet", workers))
        return next((row["over_pillow"] for row in chosen), None)

    return read


def _way(name: str) -> Callable[[Values], float | None]:
    def read(values: Values) -> float | None:
        return next((row["over_eager"] for row in values["ways"] if row["way"] == name), None)

    return read


# To quote another figure in the README, add a line here.
FIGURES = (
    Figure(
        what="RecoNet's core against the published loop, forward",
        command=MODULE,
        read=lambda values: values["forward_speedup"],
    ),
    Figure(
        what="RecoNet's core against the published loop, forward + backward",
        command=MODULE,
        read=lambda values: values["forward_backward_speedup"],
    ),
    Figure(what="data pipeline against Pillow, 1 worker", command=DATA, read=_pipeline(1)),
    Figure(what="data pipeline against Pillow, 2 workers", command=DATA, read=_pipeline(2)),
    *(
        Figure(what=f"{name} against eager fp32, {R50}", command=MODEL, read=_way(way))
        for name, way in (
            ("`Predictor`", "Predictor's default"),
            ("bf16", "bf16"),
            ("torch.compile", "torch.compile"),
            ("ONNX Runtime", "ONNX Runtime"),
            ("OpenVINO", "OpenVINO fp32"),
            ("OpenVINO int8", "OpenVINO int8"),
        )
    ),
    Figure(
        what="`voc12` with OpenVINO int8 against eager fp32, 512 x 512",
        command=PRETRAINED,
        read=_way("OpenVINO int8"),
    ),
    Figure(
        what="multi-scale evaluation against a plain loop, ResNet-50, 21 classes",
        command=EVALUATE,
        read=lambda values: values["networks"][0]["speedup"],
    ),
    Figure(
        what="training on cached features against the whole network, ResNet-50",
        command=FROZEN,
        read=lambda values: values["over_full"],
    ),
)


def run_command(command: str) -> Values:
    """Run a command of `reconet` with --json, and return what it prints."""
    words = [sys.executable, "-m", *shlex.split(command), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise BenchError(f"`{command}` failed: {lines[-1]}")
    values: Values = json.loads(done.stdout)
    return values


def bench_all(
    *,
    runs: int = 3,
    figures: Sequence[Figure] = FIGURES,
    run: Run = run_command,
    progress: Progress = SILENT,
) -> list[Measured]:
    """Run the command of every figure `runs` times, in turns."""
    commands = list(dict.fromkeys(figure.command for figure in figures))
    printed: dict[str, list[Values]] = {command: [] for command in commands}
    progress.start(runs * len(commands), "bench")
    for _ in range(runs):
        for command in commands:
            progress.status(command)
            printed[command].append(run(command))
            progress.advance()
    return [_measured(figure, printed[figure.command]) for figure in figures]


def _measured(figure: Figure, printed: Sequence[Values]) -> Measured:
    ratios = [ratio for values in printed if (ratio := figure.read(values)) is not None]
    return Measured(what=figure.what, command=figure.command, ratios=tuple(ratios))
