"""Train a recipe, on one process or many. A training can be stopped and resumed at any step.

start.py           train: a training from Python
own_data.py        inspect_folder: from somebody's own images to a recipe
run.py             run_training: the training with its files, signals, validations and progress
train.py           the training loop, a generator of steps
summary.py         what a training will do, and how long that takes
validate.py        score the network during a training
check.py           check a recipe before anything is opened
setup.py           build what the loop needs from a recipe, and check it
prepare.py         the frozen part of a network, and cached features before a training
optim.py           optimiser, learning rate and running mean of the weights
sync_batchnorm.py  batch norm over all processes
checkpoint.py      last.pt, the state that a training resumes from
balance.py         weights of classes from the training split
extend.py          a resumed training that becomes longer
run_directory.py   the files of a run, and a lock against two writers
events.py          values and images for TensorBoard and other loggers
loggers/           wandb and mlflow
memory.py          estimate whether a step fits into memory
stop.py            stop on a signal, between two steps
"""

from reconet.engine.check import check_recipe
from reconet.engine.checkpoint import run_weights
from reconet.engine.loggers import check_logger
from reconet.engine.own_data import Inspection, check_one_process, inspect_folder
from reconet.engine.prepare import FeaturePlan, plan_features
from reconet.engine.run import TrainingResult, run_training
from reconet.engine.run_directory import MAY_CHANGE, lock_directory, read_log, read_starts
from reconet.engine.setup import total_steps

__all__ = [
    "MAY_CHANGE",
    "FeaturePlan",
    "Inspection",
    "TrainingResult",
    "check_logger",
    "check_one_process",
    "check_recipe",
    "inspect_folder",
    "lock_directory",
    "plan_features",
    "read_log",
    "read_starts",
    "run_training",
    "run_weights",
    "total_steps",
]
