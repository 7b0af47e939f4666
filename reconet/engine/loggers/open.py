"""Open the loggers of a run, and send values to all of them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from reconet.engine.loggers.table import LOGGERS, check_logger
from reconet.engine.loggers.writer import LoggedRun, Writer
from reconet.engine.run_directory import read_log
from reconet.errors import ReconetError, TrainingError, first_line
from reconet.recipes import without_paths
from reconet.recipes.schema import Recipe
from reconet.system.files import write_text
from reconet.system.progress import SILENT, Progress
from reconet.system.reading import SETTINGS_BYTES, read_text
from reconet.system.run_files import RECORDS
from reconet.types import Image


class Loggers:
    """The open loggers of a run. One that fails is left out from then on."""

    def __init__(self, writers: Mapping[str, Writer], progress: Progress = SILENT) -> None:
        self._writers, self._progress = dict(writers), progress

    def add_values(self, group: str, step: int, values: Mapping[str, object]) -> None:
        """Add all values that are numbers."""
        for name, value in values.items():
            if isinstance(value, float):
                self._add_scalar(f"{group}/{name}", value, step)

    def add_image(self, name: str, image_hwc: Image, step: int) -> None:
        """Add one image."""
        self._for_each(lambda writer: writer.add_image(name, image_hwc, step))

    def _add_scalar(self, name: str, value: float, step: int) -> None:
        self._for_each(lambda writer: writer.add_scalar(name, value, step))

    def repeat_log(self, directory: Path, step: int, classes: Sequence[str]) -> None:
        """Send the log up to a step again. Loggers leave out what they have already."""
        for line in read_log(directory) if self._writers else ():
            if line["kind"] in ("train", "val") and line["step"] <= step:
                self.add_values(line["kind"], line["step"], line)
                iou = line.get("iou")
                if isinstance(iou, list) and len(iou) == len(classes):
                    named = dict(zip(classes, iou, strict=True))
                    self.add_values("iou", line["step"], named)

    def close(self, *, failed: bool) -> None:
        """Finish the records."""
        self._for_each(lambda writer: writer.close(failed=failed))

    def _for_each(self, action: Callable[[Writer], None]) -> None:
        for name, writer in list(self._writers.items()):
            try:
                action(writer)
            except Exception as error:  # a server is gone, a disk is full: packages raise anything
                del self._writers[name]
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
    """Open the loggers of a run that stands at `step`, those of earlier starts too."""
    records = read_records(directory) if step else {}
    shared, writers = without_paths(recipe), {}
    for name in sorted({*names, *records}):
        check_logger(name)
        logged = LoggedRun(directory=directory, recipe=shared, record=records.get(name))
        try:
            writers[name] = LOGGERS[name](logged)
        except ReconetError:
            raise
        except Exception as error:  # whatever the package raises
            raise TrainingError(f"--log {name} cannot start: {first_line(error)}") from error
    if writers:
        ids = {name: writer.record for name, writer in writers.items()}
        write_text(directory / RECORDS, json.dumps(ids) + "\n")
    loggers, failed = Loggers(writers, progress), True
    try:
        loggers.repeat_log(directory, step, classes)
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
