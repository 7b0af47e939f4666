"""Record a run with MLflow.

The store is the one of MLFLOW_TRACKING_URI, or else mlflow.db beside the run directory, so that all
runs of a folder are in one store. Artifacts go to mlflow-artifacts beside it.
"""

import os
from typing import Any

from reconet.engine.loggers.writer import LoggedRun, Writer
from reconet.recipes.schema import list_settings
from reconet.types import Image

EXPERIMENT = "reconet"
STORE, ARTIFACTS = "mlflow.db", "mlflow-artifacts"


class MlflowWriter:
    """A run of MLflow. It goes by a client: the other way records names of user and machine."""

    def __init__(self, client: Any, record: str) -> None:
        self._client, self._record = client, record
        self._last: dict[str, int] = {}  # the last step of each value in the store

    @property
    def record(self) -> str:
        """Return the id of the run."""
        return self._record

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Add one value."""
        if name not in self._last:
            history = self._client.get_metric_history(self._record, name)
            self._last[name] = max((point.step for point in history), default=-1)
        if step > self._last[name]:
            self._client.log_metric(self._record, name, value, step=step)

    def add_image(self, name: str, image_hwc: Image, step: int) -> None:
        """Add one image, as an artifact."""
        self._client.log_image(self._record, image_hwc, artifact_file=f"{name}/{step:08d}.png")

    def close(self, *, failed: bool) -> None:
        """Say that the run has ended."""
        self._client.set_terminated(self._record, "FAILED" if failed else "FINISHED")


def open_mlflow(logged: LoggedRun) -> Writer:
    """Open the record of a run. A record that the store does not have any more begins anew."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when mlflow is imported
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")  # it talks about its tables
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    folder = logged.directory.absolute().parent
    client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder / STORE}")
    if logged.record is not None:
        try:
            client.update_run(logged.record, status="RUNNING")
            return MlflowWriter(client, logged.record)
        except MlflowException:
            pass
    run = client.create_run(_experiment(client, folder / ARTIFACTS), run_name=logged.name)
    for name, value, _ in list_settings(logged.recipe):
        client.log_param(run.info.run_id, name, value)
    return MlflowWriter(client, run.info.run_id)


def _experiment(client: Any, artifacts: Any) -> str:
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
    found = client.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    local = "MLFLOW_TRACKING_URI" not in os.environ
    return str(client.create_experiment(name, artifacts.as_uri() if local else None))
