"""reconet bench: one file per verb."""

from collections.abc import Callable

from reconet.cli.bench.all import all_figures
from reconet.cli.bench.data import data
from reconet.cli.bench.evaluate import evaluate
from reconet.cli.bench.model import model
from reconet.cli.bench.module import module
from reconet.cli.bench.train import train

BENCH_VERBS: dict[str, Callable[..., None]] = {
    "module": module,
    "data": data,
    "train": train,
    "evaluate": evaluate,
    "model": model,
    "all": all_figures,
}

__all__ = ["BENCH_VERBS"]
