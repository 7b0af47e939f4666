"""List all loggers by name. The extra of pyproject.toml and the package have the same name."""

from collections.abc import Callable
from importlib.util import find_spec

from reconet.engine.loggers.mlflow_logger import open_mlflow
from reconet.engine.loggers.wandb_logger import open_wandb
from reconet.engine.loggers.writer import LoggedRun, Writer
from reconet.errors import MissingExtraError, pick

LOGGERS: dict[str, Callable[[LoggedRun], Writer]] = {"mlflow": open_mlflow, "wandb": open_wandb}


def check_logger(name: str) -> None:
    """Raise if there is no such logger, or if its package is not installed."""
    pick(LOGGERS, name, "logger")
    if find_spec(name) is None:
        raise MissingExtraError(name, f"--log {name}")
