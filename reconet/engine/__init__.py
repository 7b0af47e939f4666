"""Train a recipe, on one process or many. A training can be stopped and resumed at any step.

run.py             train and run_training: the training with its files, signals and validations
setup.py           check a recipe, and build what the loop needs from it
loop.py            the training loop, a generator of steps, and its optimiser
inputs.py          batches and scores, from images or cached features
checkpoint.py      last.pt, the state that a training resumes from
run_directory.py   the files of a run, and a lock against two writers
loggers.py         values and images for TensorBoard, wandb and mlflow
forecast.py        what a training will do, its time, its memory
balance.py         weights of classes from the training split
sync_batchnorm.py  batch norm over all processes
own_data.py        inspect_folder: from somebody's own images to a recipe
"""

from reconet.engine.balance import balanced_weights
from reconet.engine.checkpoint import LogState, load_last, run_weights, save_last
from reconet.engine.forecast import check_resources, memory_mb
from reconet.engine.inputs import FeaturePlan, Inputs, Validation, open_inputs, plan_features
from reconet.engine.loggers import (
    LOGGERS,
    Loggers,
    Writer,
    check_logger,
    open_loggers,
    read_records,
)
from reconet.engine.loop import (
    Ema,
    State,
    Step,
    learning_rate,
    make_optimizer,
    read_losses,
    training_steps,
)
from reconet.engine.own_data import Inspection, check_one_process, inspect_folder
from reconet.engine.run import TrainingResult, TrainingRun, run_training, train
from reconet.engine.run_directory import (
    MAY_CHANGE,
    Log,
    append_start,
    lock_directory,
    read_log,
    read_starts,
)
from reconet.engine.setup import check_recipe, make_state, total_steps
from reconet.engine.sync_batchnorm import SyncBatchNorm, synchronise_batchnorm

__all__ = [
    "LOGGERS",
    "MAY_CHANGE",
    "Ema",
    "FeaturePlan",
    "Inputs",
    "Inspection",
    "Log",
    "LogState",
    "Loggers",
    "State",
    "Step",
    "SyncBatchNorm",
    "TrainingResult",
    "TrainingRun",
    "Validation",
    "Writer",
    "append_start",
    "balanced_weights",
    "check_logger",
    "check_one_process",
    "check_recipe",
    "check_resources",
    "inspect_folder",
    "learning_rate",
    "load_last",
    "lock_directory",
    "make_optimizer",
    "make_state",
    "memory_mb",
    "open_inputs",
    "open_loggers",
    "plan_features",
    "read_log",
    "read_losses",
    "read_records",
    "read_starts",
    "run_training",
    "run_weights",
    "save_last",
    "synchronise_batchnorm",
    "total_steps",
    "train",
    "training_steps",
]
