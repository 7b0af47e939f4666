"""Running a grid: variants x seeds, each cell in a process of its own, several side by side.

    OUT/study.json                    which study, on which recipe
    OUT/<variant>/seed<k>/            a run directory, and result.json once the cell is finished

A finished cell is not run again, an unfinished one goes on from its checkpoint. A cell that fails
leaves failure.json, the others go on, and the next start tries it again.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from reconet.data import open_split
from reconet.engine.rundir import MAY_CHANGE, locked, read_log
from reconet.errors import TrainingError
from reconet.models.segmenter import build_model
from reconet.recipes.schema import Recipe, list_settings
from reconet.recipes.storage import validate_recipe, write_recipe
from reconet.study.run_trial import FAILURE, RESULT, note_failure, read_result
from reconet.study.variants import Study, Variant
from reconet.system.files import write_text

STUDY = "study.json"
POLL_SECONDS = 0.3
PATIENCE_SECONDS = 120.0  # for a cell that was asked to stop: it finishes its step and saves


@dataclass(frozen=True, kw_only=True)
class Cell:
    variant: Variant
    seed: int
    recipe: Recipe
    directory: Path
    network: Path | None  # the cell whose network is scored; None: train one

    @property
    def name(self) -> str:
        return f"{self.variant.name} seed {self.seed}"

    def finished(self) -> bool:
        return (self.directory / RESULT).is_file()

    def failure(self) -> str | None:
        path = self.directory / FAILURE
        if self.finished() or not path.is_file():
            return None
        try:
            return str(json.loads(path.read_text(encoding="utf-8"))["error"])
        except (ValueError, KeyError):
            return "it left no reason"

    def step(self) -> int:
        return max((line["step"] for line in read_log(self.directory)), default=0)


@dataclass(kw_only=True)
class Tell:
    """How a grid talks: on every change of progress, and a line now and then."""

    progress: Callable[[int, int], None] = lambda done, total: None  # steps
    line: Callable[[str], None] = lambda text: None


@dataclass(kw_only=True)
class _Job:
    cell: Cell
    process: subprocess.Popen[bytes]
    slot: int
    started: float = field(default_factory=time.monotonic)


def make_cells(
    variants: Sequence[Variant], base: Recipe, seeds: Sequence[int], out: Path
) -> list[Cell]:
    """Seed by seed, so that a grid that is stopped early has compared all variants."""
    cells = []
    for seed in seeds:
        for variant in variants:
            other = variant.network_of
            cells.append(
                Cell(
                    variant=variant,
                    seed=seed,
                    recipe=variant.recipe(base, seed),
                    directory=out / variant.name / f"seed{seed}",
                    network=None if other is None else out / other / f"seed{seed}",
                )
            )
    return cells


def check(cells: Sequence[Cell]) -> int:
    """Find what is wrong with data or settings before hours have passed; the steps of one cell."""
    recipe = cells[0].recipe
    data = recipe.data
    train_set = open_split(data, data.train_split)
    open_split(data, data.val_split)
    import torch

    from reconet.engine.setup import total_steps

    with torch.device("meta"):
        for cell in {cell.variant.name: cell for cell in cells}.values():
            build_model(cell.recipe, len(train_set.info.classes), pretrained=False)
    return total_steps(recipe, len(train_set))


@contextmanager
def entered(out: Path, study: Study, base: Recipe) -> Iterator[None]:
    """The directory of this study on this recipe, and nobody else in it."""
    with locked(out):
        path = out / STUDY
        if path.is_file():
            _same(path, study, base)
        elif any(entry.name != ".lock" for entry in out.iterdir()):
            raise TrainingError(f"{out} is not empty and holds no study; name another --out.")
        else:
            values = {"format": 1, "study": study.name, "recipe": base.model_dump(mode="json")}
            write_text(path, json.dumps(values, indent=2) + "\n")
        yield


def read_study(out: Path) -> tuple[str, Recipe]:
    """The study and the recipe that a directory was made with."""
    path = out / STUDY
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return str(values["study"]), validate_recipe(values["recipe"], str(path))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{out} holds no study: cannot read {path}.") from error


def _same(path: Path, study: Study, base: Recipe) -> None:
    name, before = read_study(path.parent)
    if name != study.name:
        raise TrainingError(f"{path.parent} holds the study {name}; name another --out.")
    pairs = zip(list_settings(before), list_settings(base), strict=True)
    for (key, old, _), (_, new, _) in pairs:
        if old != new and key not in MAY_CHANGE:
            raise TrainingError(
                f"{path.parent} was started with other settings: {key} is {old} there and {new} "
                "here; name another --out."
            )


def run_cells(cells: Sequence[Cell], *, jobs: int, steps: int, device: str, tell: Tell) -> None:
    """Run what is not finished. Ctrl-C or SIGTERM stop the cells, which save, and leave as a
    KeyboardInterrupt."""
    waiting = [cell for cell in cells if not cell.finished()]
    trained = [cell for cell in cells if cell.network is None]
    for cell in waiting:
        (cell.directory / FAILURE).unlink(missing_ok=True)  # it has another chance
    running: list[_Job] = []
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        while waiting or running:
            _start(waiting, running, jobs, device)
            time.sleep(POLL_SECONDS)
            for job in [job for job in running if job.process.poll() is not None]:
                running.remove(job)
                _close(job, cells, tell)
            tell.progress(_steps(trained, running, steps), steps * len(trained))
    except BaseException:
        _stop(running)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _steps(trained: Sequence[Cell], running: Sequence[_Job], steps: int) -> int:
    done = sum(steps for cell in trained if cell.finished() or cell.failure() is not None)
    return done + sum(job.cell.step() for job in running if not job.cell.finished())


def _start(waiting: list[Cell], running: list[_Job], jobs: int, device: str) -> None:
    for cell in list(waiting):
        if len(running) >= jobs:
            return
        if cell.network is not None and not (cell.network / RESULT).is_file():
            network = cell.network
            if any(other.directory == network for other in [*waiting, *(j.cell for j in running)]):
                continue  # its turn comes when that network is trained
            note_failure(cell.directory, "the network that it scores was not trained")
            waiting.remove(cell)
            continue
        waiting.remove(cell)
        slot = next(n for n in range(jobs) if n not in {job.slot for job in running})
        running.append(_Job(cell=cell, process=_launch(cell, slot, jobs, device), slot=slot))


def _launch(cell: Cell, slot: int, jobs: int, device: str) -> subprocess.Popen[bytes]:
    cell.directory.mkdir(parents=True, exist_ok=True)
    # Beside the run directory, not in it: that must be empty when a training begins.
    file = cell.directory.with_name(f"{cell.directory.name}.recipe.json")
    write_recipe(cell.recipe, file)
    network = [] if cell.network is None else [str(cell.network)]
    arguments = [str(file), str(cell.directory), cell.variant.name, device, *network]
    with cell.directory.with_name(f"{cell.directory.name}.out").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "reconet.study.run_trial", *arguments],
            env=_environment(slot, jobs),
            stdin=subprocess.PIPE,  # its end tells the cell that we are gone
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is for us, and we pass it on
        )


def _environment(slot: int, jobs: int) -> dict[str, str]:
    """Each job its share of the cores, or a GPU of its own."""
    import torch

    result = dict(os.environ)
    if jobs > 1:
        result.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // jobs)))
        if torch.cuda.is_available() and "CUDA_VISIBLE_DEVICES" not in result:
            result["CUDA_VISIBLE_DEVICES"] = str(slot % torch.cuda.device_count())
    return result


def _close(job: _Job, cells: Sequence[Cell], tell: Tell) -> None:
    cell, code = job.cell, job.process.returncode
    if job.process.stdin is not None:
        job.process.stdin.close()
    result = read_result(cell.directory)
    if result is None and cell.failure() is None:
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        note_failure(cell.directory, f"its process ended by {how}; its words are in {_words(cell)}")
    done = sum(one.finished() for one in cells)
    seconds = time.monotonic() - job.started
    said = f"failed: {cell.failure()}"
    if result is not None:
        said = f"mIoU {100 * result.figures['miou']:.2f} %"
    tell.line(f"{done} of {len(cells)} cells: {cell.name}: {said} ({seconds:.0f} s)")


def _words(cell: Cell) -> Path:
    return cell.directory.with_name(f"{cell.directory.name}.out")


def _stop(running: Sequence[_Job]) -> None:
    """Let every cell save; a second Ctrl-C, or no answer, ends them at once."""
    for job in running:
        job.process.terminate()
    try:
        for job in running:
            job.process.wait(PATIENCE_SECONDS)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        for job in running:
            job.process.kill()
            job.process.wait()
