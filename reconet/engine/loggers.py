"""Write the values of a training, and a few predictions, for TensorBoard, wandb and mlflow.

TensorBoard needs no option. To add a logger, write a class like those here, and add one line to
LOGGERS and to the extras of pyproject.toml. Extra and package have the name of the logger.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol

from reconet.engine.run_directory import read_log
from reconet.errors import MissingExtraError, ReconetError, TrainingError, first_line, pick
from reconet.recipes import without_paths
from reconet.recipes.schema import Recipe, list_settings
from reconet.system.files import write_text
from reconet.system.progress import SILENT, Progress
from reconet.system.reading import SETTINGS_BYTES, read_text
from reconet.system.run_files import RECORDS
from reconet.types import Image

PROJECT = "reconet"
HIDDEN = "hidden"  # in place of the name of this machine
STORE, ARTIFACTS = "mlflow.db", "mlflow-artifacts"


class Writer(Protocol):
    """An open record. It leaves out values that it has already: a resumed run sends them again."""

    @property
    def record(self) -> str:
        """Return the id of the record, by which a resumed run finds it again."""
        ...

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Add one value."""

    def add_image(self, number: int, image_hwc: Image, step: int) -> None:
        """Add one image."""

    def close(self, *, failed: bool) -> None:
        """Finish the record. A resumed run opens it again."""


class TensorBoard:
    """The event files of a run. Values after its step are those of a part that is trained again."""

    record = ""  # found by its place

    def __init__(self, directory: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(directory), purge_step=step + 1 if step else None)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Add one value."""
        self._writer.add_scalar(name, value, step)

    def add_image(self, number: int, image_hwc: Image, step: int) -> None:
        """Add one image."""
        self._writer.add_image(f"val/{number}", image_hwc, step, dataformats="HWC")

    def close(self, *, failed: bool) -> None:
        """Write what is left."""
        self._writer.close()


class Wandb:
    """A run of Weights & Biases.

    Nothing leaves the machine unless WANDB_MODE=online is set. Otherwise a start writes a folder of
    its own to <run>/wandb. wandb cannot append to such a folder, so a resumed run first writes the
    values of its log again. The newest folder is then the whole record, under the same id.
    """

    def __init__(self, directory: Path, recipe: Recipe, record: str | None) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read when wandb is imported
        import wandb

        mode: Any = os.environ.get("WANDB_MODE", "offline")
        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=directory.absolute().name,
            id=record or token_hex(8),
            resume="allow" if record else None,
            dir=str(directory),
            config=recipe.model_dump(mode="json"),
            mode=mode,
            settings=wandb.Settings(
                silent=True,
                host=HIDDEN,
                console="off",
                disable_git=True,
                disable_code=True,
                x_disable_meta=True,
                x_disable_stats=True,
                x_save_requirements=False,
            ),
        )
        self._known = int(self._run.step)  # a server has all steps below it
        self.record = str(self._run.id)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Add one value."""
        if step >= self._known:
            self._run.log({name: value}, step=step)

    def add_image(self, number: int, image_hwc: Image, step: int) -> None:
        """Add one image."""
        import wandb

        if step >= self._known:
            self._run.log({f"images/{number}": wandb.Image(image_hwc)}, step=step)

    def close(self, *, failed: bool) -> None:
        """Write what is left, and wait for it."""
        self._run.finish(exit_code=int(failed))


class Mlflow:
    """A run of MLflow. It goes by a client: the other way records names of user and machine.

    The store is the one of MLFLOW_TRACKING_URI, or else mlflow.db beside the run directory, so that
    all runs of a folder are in one store. Artifacts go to mlflow-artifacts beside it.
    """

    def __init__(self, directory: Path, recipe: Recipe, record: str | None) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when mlflow is imported
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")  # it talks about its tables
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        folder, uri = directory.absolute().parent, os.environ.get("MLFLOW_TRACKING_URI")
        self._client: Any = MlflowClient(uri or f"sqlite:///{folder / STORE}")
        self._last: dict[str, int] = {}  # the last step of each value in the store
        if record is not None:
            try:
                self._client.update_run(record, status="RUNNING")
            except MlflowException:
                record = None  # the store does not have it any more
        if record is None:
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
            found = self._client.get_experiment_by_name(name)
            place = None if uri else (folder / ARTIFACTS).as_uri()
            number = found.experiment_id if found else self._client.create_experiment(name, place)
            run = self._client.create_run(str(number), run_name=directory.absolute().name)
            record = str(run.info.run_id)
            for name, value, _ in list_settings(recipe):
                self._client.log_param(record, name, value)
        self.record = record

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Add one value."""
        if name not in self._last:
            history = self._client.get_metric_history(self.record, name)
            self._last[name] = max((point.step for point in history), default=-1)
        if step > self._last[name]:
            self._client.log_metric(self.record, name, value, step=step)

    def add_image(self, number: int, image_hwc: Image, step: int) -> None:
        """Add one image, as an artifact."""
        file = f"images/{number}/{step:08d}.png"
        self._client.log_image(self.record, image_hwc, artifact_file=file)

    def close(self, *, failed: bool) -> None:
        """Say that the run has ended."""
        self._client.set_terminated(self.record, "FAILED" if failed else "FINISHED")


LOGGERS: dict[str, Callable[[Path, Recipe, str | None], Writer]] = {
    "mlflow": Mlflow,
    "wandb": Wandb,
}


def check_logger(name: str) -> None:
    """Raise if there is no such logger, or if its package is not installed."""
    pick(LOGGERS, name, "logger")
    if find_spec(name) is None:
        raise MissingExtraError(name, f"--log {name}")


class Loggers:
    """The open loggers of a run, none by default. One that fails is left out from then on."""

    def __init__(self, writers: Mapping[str, Writer], progress: Progress = SILENT) -> None:
        self.writers, self._progress = dict(writers), progress

    def add_values(self, group: str, step: int, values: Mapping[str, object]) -> None:
        """Add all values that are numbers."""
        for name, value in values.items():
            if isinstance(value, float):
                self._send("add_scalar", f"{group}/{name}", value, step)

    def add_image(self, number: int, image_hwc: Image, step: int) -> None:
        """Add one image."""
        self._send("add_image", number, image_hwc, step)

    def close(self, *, failed: bool) -> None:
        """Finish the records."""
        self._send("close", failed=failed)

    def _send(self, method: str, *arguments: object, **options: object) -> None:
        for name, writer in list(self.writers.items()):
            try:
                getattr(writer, method)(*arguments, **options)
            except Exception as error:  # a server is gone, a disk is full: packages raise anything
                del self.writers[name]
                self._progress.note(
                    f"--log {name} has failed, and the training goes on without it: "
                    f"{first_line(error)}"
                )


@contextmanager
def open_loggers(
    directory: Path,
    step: int,
    recipe: Recipe,
    classes: Sequence[str],
    names: Sequence[str],
    progress: Progress,
) -> Iterator[Loggers]:
    """Open the loggers of a run that stands at `step`, those of earlier starts too.

    All but TensorBoard are sent the log up to that step again.
    """
    records = read_records(directory) if step else {}
    shared, writers = without_paths(recipe), dict[str, Writer]()
    for name in sorted({*names, *records}):
        check_logger(name)
        try:
            writers[name] = LOGGERS[name](directory, shared, records.get(name))
        except ReconetError:
            raise
        except Exception as error:  # whatever the package raises
            raise TrainingError(f"--log {name} cannot start: {first_line(error)}") from error
    if writers:
        ids = {name: writer.record for name, writer in writers.items()}
        write_text(directory / RECORDS, json.dumps(ids) + "\n")
    loggers, failed = Loggers(writers, progress), True
    try:
        for line in read_log(directory) if step else ():
            if line["kind"] in ("train", "val") and line["step"] <= step:
                loggers.add_values(line["kind"], line["step"], line)
                iou = line.get("iou")
                if isinstance(iou, list) and len(iou) == len(classes):
                    loggers.add_values("iou", line["step"], dict(zip(classes, iou, strict=True)))
        loggers.writers["tensorboard"] = TensorBoard(directory, step)  # it has its own files
        yield loggers
        failed = False
    finally:
        loggers.close(failed=failed)


def read_records(directory: Path) -> dict[str, str]:
    """Read the ids of a run's records by the names of their loggers."""
    try:
        text = read_text(directory / RECORDS, limit=SETTINGS_BYTES, within=directory)
        records = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return {}
    known = records.items() if isinstance(records, dict) else ()
    return {name: record for name, record in known if name in LOGGERS and isinstance(record, str)}
