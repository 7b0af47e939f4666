"""Measure every figure of speed that the docs quote, and write them into docs/speed.md.

    python -m benchmarks.all              three runs of every command: about half an hour
    python -m benchmarks.all --runs 1

A figure is a ratio within one run of a command, so that it means the same on a busy machine. The
commands take turns, each in a process of its own, and the smallest ratio counts. The machine needs
to have nothing else to do. At last come the rows of README.md that quote another figure.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from reconet.system.hardware import environment

ROOT = Path(__file__).parent.parent
PAGE, README = ROOT / "docs" / "speed.md", ROOT / "README.md"
MARKED = re.compile(r"(<!-- figures -->\n).*?(<!-- end -->)", re.S)
ROW = re.compile(r"^\| (?P<text>.+?) \| `(?P<command>(?:reconet|python -m) bench.+?)` \|$", re.M)

MODULE = "reconet bench module --context reconet"
DATA = "python -m benchmarks.data"
MODEL = "reconet bench model --rounds 3"
VOC12 = 'reconet bench model voc12 --way "OpenVINO int8" --rounds 3'
EVALUATE = "python -m benchmarks.evaluate --backbone resnet50 --crop 256 --classes 21 --rounds 1"
FROZEN = "python -m benchmarks.frozen --steps 5"
R50 = "ResNet-50, 512 x 512"

Values = dict[str, Any]  # what a command prints as JSON


class Figure(NamedTuple):
    """A ratio that the docs quote: how many times as fast `what` is."""

    what: str
    command: str
    read: Callable[[Values], float | None]  # None: this machine cannot run it


Measured = Sequence[tuple[Figure, list[float]]]  # with the ratios of all runs


def _pipeline(workers: int) -> Callable[[Values], float | None]:
    return lambda values: next(
        row["over_pillow"]
        for row in values["pipelines"]
        if (row["name"], row["workers"]) == ("reconet", workers)
    )


def _way(name: str) -> Callable[[Values], float | None]:
    return lambda values: next(
        (row["over_eager"] for row in values["ways"] if row["way"] == name), None
    )


# To quote another figure in the README, add a line here.
FIGURES = (
    Figure(
        "RecoNet's core against the published loop, forward",
        MODULE,
        lambda values: values["forward_speedup"],
    ),
    Figure(
        "RecoNet's core against the published loop, forward + backward",
        MODULE,
        lambda values: values["forward_backward_speedup"],
    ),
    Figure("data pipeline against Pillow, 1 worker", DATA, _pipeline(1)),
    Figure("data pipeline against Pillow, 2 workers", DATA, _pipeline(2)),
    Figure(f"`Predictor` against eager fp32, {R50}", MODEL, _way("Predictor's default")),
    Figure(f"bf16 against eager fp32, {R50}", MODEL, _way("bf16")),
    Figure(f"torch.compile against eager fp32, {R50}", MODEL, _way("torch.compile")),
    Figure(f"ONNX Runtime against eager fp32, {R50}", MODEL, _way("ONNX Runtime")),
    Figure(f"OpenVINO against eager fp32, {R50}", MODEL, _way("OpenVINO fp32")),
    Figure(f"OpenVINO int8 against eager fp32, {R50}", MODEL, _way("OpenVINO int8")),
    Figure(
        "`voc12` with OpenVINO int8 against eager fp32, 512 x 512", VOC12, _way("OpenVINO int8")
    ),
    Figure(
        "multi-scale evaluation against a plain loop, ResNet-50, 21 classes",
        EVALUATE,
        lambda values: values["networks"][0]["speedup"],
    ),
    Figure(
        "training on cached features against the whole network, ResNet-50",
        FROZEN,
        lambda values: values["over_full"],
    ),
)


def run(command: str) -> Values:
    """Run a command and return the JSON that it prints."""
    program, *words = shlex.split(command)
    if program == "reconet":
        words = ["-m", "reconet", *words, "--json"]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    values: Values = json.loads(done.stdout)
    return values


def measure(runs: int, run: Callable[[str], Values] = run) -> Measured:
    """Run the commands of all figures in turns, and return the ratios of each figure."""
    commands = dict.fromkeys(figure.command for figure in FIGURES)
    printed: dict[str, list[Values]] = {command: [] for command in commands}
    for number in range(runs):
        for command in commands:
            print(f"run {number + 1} of {runs}: {command}", file=sys.stderr)
            printed[command].append(run(command))
    return [
        (figure, [ratio for values in printed[figure.command] if (ratio := figure.read(values))])
        for figure in FIGURES
    ]


def section(machine: Mapping[str, str], runs: int, measured: Measured) -> str:
    """Return the machine and the table of figures in Markdown."""
    lines = ["`make bench` on this machine:", ""]
    lines += [f"- {name}: {text}" for name, text in machine.items()]
    lines += ["", f"| what | times as fast, smallest of {runs} | all runs | command |"]
    lines += ["|---|---|---|---|"]
    for figure, ratios in measured:
        smallest = f"**{min(ratios):.2f}**" if ratios else "not here"
        every = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        lines.append(f"| {figure.what} | {smallest} | {every} | `{figure.command}` |")
    return "\n".join([*lines, ""])


def stale_rows(readme: str, measured: Measured) -> list[str]:
    """Return the rows of a README that quote no figure of their command.

    A row quotes a figure if it has it with one digit or two: 5.2 or 5.21 times.
    """
    stale = []
    for row in ROW.finditer(readme):
        own = [min(r) for figure, r in measured if figure.command == row["command"] and r]
        allowed = {form.format(figure) for figure in own for form in ("{:.1f}", "{:.2f}")}
        quoted = set(re.findall(r"\d+\.\d+", row["text"]))
        if not quoted or not quoted <= allowed:
            stale.append(row["text"])
    return stale


def main() -> None:
    """Measure, write the page, and print the rows of the README that are old."""
    parser = argparse.ArgumentParser(description="Every figure of speed that the docs quote.")
    parser.add_argument("--runs", type=int, default=3, help="of which the smallest counts")
    runs = parser.parse_args().runs
    measured = measure(runs)
    text = section(dict(environment(torch.device("cpu"))), runs, measured)
    PAGE.write_text(MARKED.sub(lambda m: f"{m[1]}\n{text}\n{m[2]}", PAGE.read_text()))
    for row in stale_rows(README.read_text(), measured):
        print(f"README.md quotes another figure: {row}")


if __name__ == "__main__":
    main()
