"""Measure speed and memory. All candidates of a benchmark run in turns, and ratios are compared.

modules.py    the cores of all contexts on one feature map
plot.py       the same as an image: time against memory
data.py       loading and augmenting training images
train.py      training steps in fp32 and in bf16
frozen.py     training on cached features, against training the whole network
evaluate.py   multi-scale evaluation against a plain loop
model.py      one network in every way that this machine can run it
summary.py    every figure that the docs quote, by the commands above
"""

from reconet.bench.data import DataBench, bench_data
from reconet.bench.evaluate import EvaluateBench, bench_evaluate
from reconet.bench.frozen import FrozenBench, bench_frozen
from reconet.bench.model import ModelBench, bench_model, untrained_network
from reconet.bench.modules import ModuleBench, bench_module, smaller_than_reconet
from reconet.bench.summary import Measured, bench_all
from reconet.bench.train import TrainBench, bench_train

__all__ = [
    "DataBench",
    "EvaluateBench",
    "FrozenBench",
    "Measured",
    "ModelBench",
    "ModuleBench",
    "TrainBench",
    "bench_all",
    "bench_data",
    "bench_evaluate",
    "bench_frozen",
    "bench_model",
    "bench_module",
    "bench_train",
    "smaller_than_reconet",
    "untrained_network",
]
