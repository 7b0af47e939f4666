"""Run a whole training: the loop with its files, signals, validations and progress."""

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from reconet.data.dataset import Dataset, left_out_note, share_images
from reconet.data.dataset_file import dataset_settings
from reconet.engine.balance import count_weights
from reconet.engine.checkpoint import LogState, load_last, save_best, save_last
from reconet.engine.forecast import (
    Forecast,
    check_resources,
    memory_mb,
    summarise,
    summary_lines,
)
from reconet.engine.inputs import fit_trunk, open_inputs
from reconet.engine.loggers import Loggers, check_logger, open_loggers
from reconet.engine.loop import (
    Step,
    StopSwitch,
    check_weights,
    learning_rate,
    read_losses,
    stop_on_signals,
    training_steps,
)
from reconet.engine.run_directory import (
    Log,
    append_forecast,
    append_start,
    keep_changes,
    lock_directory,
    open_run,
)
from reconet.engine.setup import check_start, make_state, open_splits, total_steps
from reconet.errors import DataError, TrainingError
from reconet.evaluation import StoppedError, keep_predictions, keep_validation
from reconet.evaluation.kept_validation import predict_tiles
from reconet.inference.protocol import Protocol
from reconet.models.trained import NetworkInfo, TrainedNetwork
from reconet.recipes import Recipe, apply_overrides, find_recipe
from reconet.system.distributed import Processes, join_processes
from reconet.system.hardware import keep_freed_memory
from reconet.system.own_code import imported_names
from reconet.system.progress import SILENT, Lines, Progress
from reconet.system.run_files import BEST, LAST

SEEN_IN_TRAINING = (
    "validation images are also trained on: scores say nothing about new images, and the last "
    "network is kept as the best."
)
IMAGES, SIDE = 4, 256  # drawn for the loggers at each validation


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """How far a training got."""

    directory: Path
    step: int
    steps: int
    stopped_by: int | None  # the signal that stopped it early, on whatever process
    out_of_patience: bool  # the score did not improve any more
    is_first: bool  # of many processes, the one that talks to the user

    @property
    def finished(self) -> bool:
        return self.step == self.steps or self.out_of_patience


def train(
    recipe: Recipe | str | Path,
    out: str | Path,
    *,
    data: str | Path | None = None,
    settings: Iterable[str] = (),
    resume: bool = False,
    device: str = "auto",
    log: Sequence[str] = (),
    progress: Progress | None = None,
) -> TrainingResult:
    """Train the network of a recipe in the run directory `out`.

    `recipe` is a Recipe, or what `reconet train` takes: a name, a file or a run directory.
    `data` is a file that describes a dataset, such as mine.yaml. `settings` are those of --set,
    such as "optim.lr=0.02". `log` names loggers beside TensorBoard: "wandb", "mlflow". Ctrl-C saves
    a checkpoint and stops. Progress is printed on stderr, unless `progress` shows it elsewhere.
    """
    for name in log:
        check_logger(name)
    found = recipe if isinstance(recipe, Recipe) else find_recipe(str(recipe))
    described = [] if data is None else dataset_settings(Path(data))
    others = [settings] if isinstance(settings, str) else settings
    changed = apply_overrides(found, [*described, *others])
    return run_training(
        changed, Path(out), resume=resume, device=device, log=log, progress=progress or Lines()
    )


def run_training(
    recipe: Recipe,
    directory: Path,
    *,
    resume: bool = False,
    device: str = "auto",
    log: Sequence[str] = (),  # loggers beside TensorBoard: "wandb", "mlflow"
    progress: Progress = SILENT,
) -> TrainingResult:
    """Train a recipe in a run directory, from the beginning or from the last checkpoint."""
    # torchrun starts all processes again if one has died. The training then resumes by itself.
    resume = resume or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0
    with join_processes(device) as processes, ExitStack() as stack:
        keep_freed_memory()
        with processes.together():
            recipe = check_start(recipe, processes, resume=resume)
        splits = open_splits(recipe, processes)
        directory = Path(processes.broadcast(str(directory)))
        processes.run_on_first(lambda: stack.enter_context(lock_directory(directory)))
        there, before = processes.run_on_first(lambda: open_run(directory, recipe, resume=resume))
        progress = progress if processes.is_first else SILENT
        run = TrainingRun(recipe, splits, directory, processes, progress, there, log)
        return run.run(before)


class TrainingRun:
    """One training, from its first or last saved step to its end."""

    def __init__(
        self,
        recipe: Recipe,
        splits: tuple[Dataset, Dataset],
        directory: Path,
        processes: Processes,
        progress: Progress,
        resume: bool,
        loggers: Sequence[str] = (),
    ) -> None:
        self.recipe, self.directory, self.logger_names = recipe, directory, loggers
        self.processes, self.progress = processes, progress
        self.train_set, self.val_set = splits
        self.seen_in_training = share_images(self.train_set, self.val_set)
        self.steps = total_steps(recipe, len(self.train_set))
        torch.manual_seed(recipe.train.seed)
        self.state = make_state(
            recipe,
            len(self.train_set.info.classes),
            processes,
            fresh=not resume,
            fit=lambda model: fit_trunk(model, recipe, self.train_set, processes, progress),
        )
        self.log_state = LogState()
        with processes.together():
            if resume:
                self.log_state = load_last(directory / LAST, self.state, progress)
        self.balanced: tuple[float, ...] | None = None
        if recipe.loss.class_weights == "balanced":
            self.balanced = count_weights(
                recipe, directory, self.train_set, processes, progress, resume=resume
            )
        self.inputs = open_inputs(recipe, self.state.model, *splits, processes, progress)
        self.stop, self.status = StopSwitch(), ""
        self.unread: list[Step] = []  # whose losses are still on the device
        self.log = Log(directory, self.state.step) if processes.is_first else None
        self.loggers = Loggers({})

    def run(self, before: Recipe) -> TrainingResult:
        """Train what is left to train, then draw the predictions of the best network.

        `before` is the recipe that the run was started with. Its steps may have become more.
        """
        first, start = self.processes.run_on_first, self.state.step
        steps_before = total_steps(before, len(self.train_set))
        with self.processes.together():
            if self.steps < steps_before:
                raise TrainingError(
                    f"{self.directory} was started with {steps_before:,} steps, and a resumed "
                    f"training may only become longer, not {self.steps:,} steps."
                )
        extended = self.steps > steps_before
        if extended:
            self.log_state = replace(self.log_state, stale=0)  # a longer training is patient anew
        missing = start < self.steps or self.log_state.validated < self.steps
        unfinished = missing and not self._out_of_patience()
        if unfinished:
            first(
                lambda: check_resources(
                    self.directory, self.recipe, self.state, self.processes, self.progress
                )
            )
        if extended:
            self._save()  # before the recipe says so: after a kill it is no longer an extension
        first(lambda: keep_changes(self.directory, before, self.recipe))
        if extended and self.log is not None:
            self._tell_extension(start, steps_before, self.log)
        if start == 0:
            self._save()  # from now on a run without last.pt has lost it
        if unfinished:
            first(lambda: append_start(self.directory, start, self.processes))
            self._train(start)
        ended = self.state.step == self.steps or self._out_of_patience()
        if ended and self.processes.is_first:
            keep_predictions(self.directory, self.val_set, self.processes.device)
        return TrainingResult(
            directory=self.directory,
            step=self.state.step,
            steps=self.steps,
            stopped_by=next(filter(None, self.processes.gather(self.stop.signal)), None),
            out_of_patience=self._out_of_patience(),
            is_first=self.processes.is_first,
        )

    def _tell_extension(self, start: int, steps_before: int, log: Log) -> None:
        log.write(kind="extended", step=start, steps_before=steps_before, steps=self.steps)
        lengths = (steps_before, self.steps)
        old, new = (learning_rate(self.recipe.optim, start, steps) for steps in lengths)
        self.progress.note(
            f"extended from {steps_before:,} to {self.steps:,} steps: from step {start:,} on the "
            f"learning rate follows the longer schedule ({new:.2g} instead of {old:.2g})"
        )

    def _out_of_patience(self) -> bool:
        patience = self.recipe.train.patience
        return patience is not None and self.log_state.stale >= patience

    def _train(self, start: int) -> None:
        recipe, progress, classes = self.recipe, self.progress, self.val_set.info.classes
        opened = nullcontext(self.loggers)
        if self.log is not None:
            opened = open_loggers(  # type: ignore[assignment]
                self.directory, start, recipe, classes, self.logger_names, progress
            )
        with stop_on_signals(self.stop), opened as self.loggers:
            values = summarise(recipe, self.state.model, self.train_set, self.val_set, self.steps)
            notes = [*summary_lines(values, start)]
            notes += filter(None, map(left_out_note, (self.train_set, self.val_set)))
            for note in [*notes, *([SEEN_IN_TRAINING] if self.seen_in_training else [])]:
                progress.note(note)
            if start == 0:
                self._write_log("summary", 0, values)
            progress.start(self.steps - start, "train")
            try:
                self._take_steps(start)
            except DataError:
                self._save()  # a broken image must not cost the steps before it
                raise

    def _take_steps(self, start: int) -> None:
        # A validation of the saved step that failed or was stopped is made up for.
        validated, stopped = self.log_state.validated, start > 0 and self._validate_if_due()
        if stopped or self.log_state.validated != validated:
            self._save()
        if stopped:
            return
        self.clock, self.clock_step = time.monotonic(), start
        forecast, stream = Forecast(self.steps - start), self.inputs.batches(start, self.steps)
        loop = training_steps(
            self.state, stream, self.recipe, self.steps, self.processes, self.stop, self.balanced
        )
        with closing(loop) as steps:  # so that no exchange of gradients outlives its process group
            for step in steps:
                told = forecast.advance(self.progress)
                if told and self.log is not None:
                    append_forecast(self.directory, step.done, told)
                if self._finish_step(step):
                    break

    def _finish_step(self, step: Step) -> bool:
        """Log, validate and save if they are due. Returns True if the training is to stop."""
        settings, last = self.recipe.train, step.done == self.steps
        self.unread.append(step)
        self.progress.advance()
        for skipped in step.skipped:
            self.progress.note(f"skipped {skipped}")
        if step.done % settings.log_every == 0 or last:
            self._log_step(step)
        stopped = step.stop or self._validate_if_due() or self._out_of_patience()
        if step.done % settings.save_every == 0 or last or stopped:
            self._save()
        return stopped

    def _read_losses(self) -> None:
        """Wait for the device, and end a training that has diverged."""
        self.log_state = self.log_state.add(read_losses(self.unread, self.processes))
        self.unread.clear()

    def _log_step(self, step: Step) -> None:
        self._read_losses()
        now, images = time.monotonic(), self.recipe.train.batch * (step.done - self.clock_step)
        speed, memory = images / max(1e-9, now - self.clock), memory_mb(self.processes.device)
        self.clock, self.clock_step = now, step.done
        loss = self.log_state.loss_sum / self.log_state.loss_count
        self.log_state = replace(self.log_state, loss_sum=0.0, loss_count=0)
        values = {"loss": loss, "lr": step.lr, "images_per_second": round(speed, 2)}
        self._write_log("train", step.done, {**values, "memory_mb": memory})
        self.status = (
            f"step {step.done}: loss {loss:.3f}, lr {step.lr:.2g}, {speed:.1f} images/s, "
            f"{memory / 1e3:.1f} GB"
        )
        self.progress.status(self.status)

    def _validate_if_due(self) -> bool:
        """Validate if it is time for it. Returns True if a signal stopped it.

        A validation that fails is made up for after a resume.
        """
        step, settings, info = self.state.step, self.recipe.train, self.val_set.info
        due = step % settings.eval_every == 0 or step == self.steps
        if not due or self.log_state.validated == step:
            return False
        self._read_losses()
        check_weights(self.state)
        try:
            values, iou_k, count_kk, loss = self.inputs.validate(
                self.state.best_model, self.stop, self.progress
            )
        except StoppedError:
            return True
        if self.seen_in_training:
            values["seen_in_training"] = True
        better = values["miou"] > self.log_state.best_score
        if better or self.seen_in_training:  # before the log says that it was validated
            self.processes.run_on_first(lambda: self._save_best(values, count_kk))
        protocol, iou = Protocol.in_training(self.recipe.data), iou_k.tolist()
        logged = values if loss is None else {**values, "loss": loss}
        rounded = [round(value, 6) for value in iou]
        self._write_log("val", step, {**logged, "iou": rounded, "protocol": protocol.name})
        self.loggers.add_values("iou", step, dict(zip(info.classes, iou, strict=True)))
        # Cached features do not need the backbone, and images do: only the last are drawn.
        if self.log is not None and (self.recipe.data.views is None or step == self.steps):
            model = self.state.best_model.eval()  # the next step sets it to training again
            tiles = predict_tiles(
                model, self.val_set, protocol, info.palette, count=IMAGES, side=SIDE
            )
            for number, tile in enumerate(tiles):
                image_hwc = np.concatenate([np.asarray(image) for image in tile.images], axis=1)
                self.loggers.add_image(number, image_hwc, step)
        self.progress.note(f"step {step}: mIoU {100 * values['miou']:.2f} % ({protocol.name})")
        self.progress.status(self.status)
        best_score = max(values["miou"], self.log_state.best_score)
        stale = 0 if better else self.log_state.stale + 1
        self.log_state = replace(self.log_state, best_score=best_score, validated=step, stale=stale)
        return False

    def _save_best(self, values: dict[str, float], count_kk: torch.Tensor) -> None:
        info = NetworkInfo(
            recipe=self.recipe,
            classes=self.val_set.info.classes,
            palette=self.val_set.info.palette,
            step=self.state.step,
            score=values,
            imports=imported_names(),
        )
        trained = TrainedNetwork(model=self.state.best_model, info=info)
        if save_best(self.directory / BEST, trained, newest=self.seen_in_training):
            images = len(self.val_set) - int(values.get("skipped", 0))
            keep_validation(self.directory, info, images, count_kk)

    def _save(self) -> None:
        self._read_losses()
        check_weights(self.state)
        path = self.directory / LAST
        self.processes.run_on_first(lambda: save_last(path, self.state, self.log_state))

    def _write_log(self, kind: str, step: int, values: dict[str, object]) -> None:
        if self.log is not None:
            self.log.write(kind=kind, step=step, **values)
            self.loggers.add_values(kind, step, values)
