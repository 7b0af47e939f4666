"""Other places that the values of a training go to: --log wandb, --log mlflow.

table.py          LOGGERS, the table of all loggers
open.py           open the loggers of a run, and send values to all of them
writer.py         what a logger is given, and what it can do
wandb_logger.py   Weights & Biases
mlflow_logger.py  MLflow

TensorBoard needs no option (engine/events.py). To add a logger, write a file with a function that
opens it, and add one line to LOGGERS and to the extras of pyproject.toml.
"""

from reconet.engine.loggers.open import Loggers, open_loggers
from reconet.engine.loggers.table import LOGGERS, check_logger

__all__ = ["LOGGERS", "Loggers", "check_logger", "open_loggers"]
