"""Run a whole training: the loop with its files, signals, validations and progress."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from reconet.data.dataset import Dataset, left_out_note, share_images
from reconet.engine.balance import balanced_recipe
from reconet.engine.checkpoint import LogState, load_last, save_best, save_last
from reconet.engine.events import Events, open_events
from reconet.engine.extend import extend_run
from reconet.engine.inputs import open_inputs
from reconet.engine.memory import check_resources, memory_mb
from reconet.engine.prepare import fit_trunk
from reconet.engine.run_directory import (
    SUMMARY,
    Log,
    OpenedRun,
    append_start,
    lock_directory,
    open_run,
)
from reconet.engine.setup import (
    augmentation,
    check_start,
    make_state,
    open_splits,
    total_steps,
)
from reconet.engine.stop import StopSwitch, stop_on_signals
from reconet.engine.summary import Forecast, start_lines, summarise_start
from reconet.engine.train import Step, check_weights, read_losses, train
from reconet.engine.validate import validate
from reconet.errors import DataError
from reconet.evaluation import StoppedError, keep_predictions, keep_validation
from reconet.inference.protocol import Protocol
from reconet.models.trained import NetworkInfo, TrainedNetwork
from reconet.recipes.schema import Recipe
from reconet.system.distributed import Processes, join_processes
from reconet.system.hardware import keep_freed_memory
from reconet.system.own_code import imported_names
from reconet.system.progress import SILENT, Progress
from reconet.system.run_files import BEST, LAST

SEEN_IN_TRAINING = (
    "validation images are also trained on: scores say nothing about new images, and the last "
    "network is kept as the best."
)


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
        recipe = check_start(recipe, processes, resume=resume)
        splits = open_splits(recipe, processes)
        directory = Path(processes.broadcast(str(directory)))
        processes.run_on_first(lambda: stack.enter_context(lock_directory(directory)))
        opened = processes.run_on_first(lambda: open_run(directory, recipe, resume=resume))
        progress = progress if processes.is_first else SILENT
        return TrainingRun(recipe, splits, directory, processes, progress, opened, log).run()


class TrainingRun:
    """One training, from its first or last saved step to its end."""

    def __init__(
        self,
        recipe: Recipe,
        splits: tuple[Dataset, Dataset],
        directory: Path,
        processes: Processes,
        progress: Progress,
        opened: OpenedRun,
        log: Sequence[str] = (),
    ) -> None:
        self.recipe, self.directory, self.loggers = recipe, directory, log
        self.processes, self.progress = processes, progress
        self.train_set, self.val_set = splits
        self.seen_in_training = share_images(self.train_set, self.val_set)
        self.steps = total_steps(recipe, len(self.train_set))
        torch.manual_seed(recipe.train.seed)
        num_classes = len(self.train_set.info.classes)
        self.state = make_state(
            recipe,
            num_classes,
            processes,
            fresh=not opened.resume,
            fit=lambda model: fit_trunk(model, recipe, self.train_set, processes, progress),
        )
        self.log_state = LogState()
        with processes.together():
            if opened.resume:
                self.log_state = load_last(directory / LAST, self.state, progress)
        self.before = opened.before
        self.balanced = balanced_recipe(
            recipe, directory, self.train_set, processes, progress, resume=opened.resume
        )
        model, drawn = self.state.model, augmentation(recipe)
        self.inputs = open_inputs(
            recipe, drawn, model, self.train_set, self.val_set, processes, progress
        )
        self.stop, self.status = StopSwitch(), ""
        self.unread: list[Step] = []  # whose losses are still on the device
        self.log = Log(directory, self.state.step) if processes.is_first else None

    def run(self) -> TrainingResult:
        """Train what is left to train, then draw the predictions of the best network."""
        start, images = self.state.step, len(self.train_set)
        extended = self.steps > total_steps(self.before, images)
        if extended:
            self.log_state = replace(self.log_state, stale=0)  # a longer training is patient anew
        missing = start < self.steps or self.log_state.validated < self.steps
        unfinished = missing and not self._out_of_patience()
        if unfinished:
            self.processes.run_on_first(
                lambda: check_resources(
                    self.directory, self.recipe, self.state, self.processes, self.progress
                )
            )
        if extended:
            self._save()  # before the recipe says so: after a kill it is no longer an extension
        self.processes.run_on_first(
            lambda: extend_run(
                self.directory, self.recipe, self.before, images, start, self.log, self.progress
            )
        )
        if start == 0:
            self._save()  # from now on a run without last.pt has lost it
        if unfinished:
            self.processes.run_on_first(lambda: append_start(self.directory, start, self.processes))
            with stop_on_signals(self.stop), self._open_events(start) as self.events:
                self._introduce(start)
                self.progress.start(self.steps - start, "train")
                if not self._make_up_validation(start):
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

    def _open_events(self, start: int) -> AbstractContextManager[Events]:
        if not self.processes.is_first:
            return nullcontext(Events())
        classes, log = self.val_set.info.classes, self.loggers
        return open_events(self.directory, start, self.recipe, classes, log, self.progress)

    def _introduce(self, start: int) -> None:
        """Say what the training will do, here and in the log."""
        values = summarise_start(
            self.recipe, self.state.model, self.train_set, self.val_set, self.steps
        )
        for line in start_lines(values, start):
            self.progress.note(line)
        for note in filter(None, map(left_out_note, (self.train_set, self.val_set))):
            self.progress.note(note)
        if self.seen_in_training:
            self.progress.note(SEEN_IN_TRAINING)
        if start == 0:
            self._write_log(SUMMARY, 0, values)

    def _out_of_patience(self) -> bool:
        patience = self.recipe.train.patience
        return patience is not None and self.log_state.stale >= patience

    def _make_up_validation(self, start: int) -> bool:
        """Validate after a resume if the validation of the saved step failed or was stopped.

        Returns True if the training is to stop.
        """
        validated = self.log_state.validated
        stopped = start > 0 and self._validate_if_due()
        if stopped or self.log_state.validated != validated:
            self._save()
        return stopped

    def _train(self, start: int) -> None:
        self.clock, self.clock_step = time.monotonic(), start
        forecast = Forecast(self.steps - start)
        stream = self.inputs.batches(start, self.steps)
        loop = train(self.state, stream, self.balanced, self.steps, self.processes, self.stop)
        with closing(loop) as steps:  # so that no exchange of gradients outlives its process group
            while (step := self._next_step(steps)) is not None:
                if self.log is not None:
                    self.log.expect(step.done, forecast.advance(self.progress))
                if self._finish_step(step):
                    break

    def _next_step(self, steps: Iterator[Step]) -> Step | None:
        try:
            return next(steps, None)
        except DataError:
            self._save()  # a broken image must not cost the steps before it
            raise

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
        values = {
            "loss": loss,
            "lr": step.lr,
            "images_per_second": round(speed, 2),
            "memory_mb": memory,
        }
        self._write_log("train", step.done, values)
        self.status = (
            f"step {step.done}: loss {loss:.3f}, lr {step.lr:.2g}, {speed:.1f} images/s, "
            f"{memory / 1e3:.1f} GB"
        )
        self.progress.status(self.status)

    def _validate_if_due(self) -> bool:
        """Validate if it is time for it. Returns True if a signal stopped it.

        A validation that fails is made up for after a resume.
        """
        step, settings = self.state.step, self.recipe.train
        due = step % settings.eval_every == 0 or step == self.steps
        if not due or self.log_state.validated == step:
            return False
        self._read_losses()
        check_weights(self.state)
        try:
            values, iou_k, count_kk, loss = validate(
                self.state.best_model,
                self.inputs,
                self.val_set,
                self.processes,
                stop=self.stop,
                progress=self.progress,
            )
        except StoppedError:
            return True
        except DataError:
            self._save()
            raise
        if self.seen_in_training:
            values["seen_in_training"] = True
        logged = values if loss is None else {**values, "loss": loss}
        self._log_validation(step, logged, iou_k.tolist())
        better = values["miou"] > self.log_state.best_score
        best_score = max(values["miou"], self.log_state.best_score)
        stale = 0 if better else self.log_state.stale + 1
        self.log_state = replace(self.log_state, best_score=best_score, validated=step, stale=stale)
        if better or self.seen_in_training:
            self.processes.run_on_first(lambda: self._save_best(values, count_kk))
        return False

    def _log_validation(self, step: int, values: dict[str, Any], iou_k: list[float]) -> None:
        protocol = Protocol.in_training(self.recipe.data)
        iou = [round(value, 6) for value in iou_k]
        self._write_log("val", step, {**values, "iou": iou, "protocol": protocol.name})
        classes = self.val_set.info.classes
        self.events.add_values("iou", step, dict(zip(classes, iou_k, strict=True)))
        # Cached features do not need the backbone, and images do: only the last are drawn.
        if self.recipe.data.views is None or step == self.steps:
            model = self.state.best_model.eval()  # the next step sets it to training again
            self.events.add_predictions(step, model, self.val_set, protocol)
        self.progress.note(f"step {step}: mIoU {100 * values['miou']:.2f} % ({protocol.name})")
        self.progress.status(self.status)

    def _save_best(self, values: dict[str, float], count_kk: Tensor) -> None:
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

    def _write_log(self, kind: str, step: int, values: dict[str, Any]) -> None:
        if self.log is None:
            return
        self.log.write(kind=kind, step=step, **values)
        self.events.add_values(kind, step, values)
