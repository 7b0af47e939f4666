"""A whole training: the shell around the loop, with files, signals, validations and a display."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from reconet.data import open_split
from reconet.data.dataset import share_images
from reconet.data.loader import Skipped, batches
from reconet.engine.checkpoint import Progress, load_last, save_last
from reconet.engine.display import Display
from reconet.engine.memory import memory_mb, memory_warning
from reconet.engine.rundir import Log, enter, locked, note_start
from reconet.engine.setup import check_labels, check_precision, geometry, make_state, total_steps
from reconet.engine.stop import StopSwitch, signals
from reconet.engine.train import Step, agreed, train
from reconet.errors import DataError, OutputError, ReconetError
from reconet.evaluation.benchmarks import benchmark_scores, score_figures
from reconet.evaluation.evaluate import StoppedError, evaluate, nothing_scored
from reconet.evaluation.prediction_sheet import prediction_sheet
from reconet.inference.protocol import Protocol
from reconet.models.liveness import mean_liveness, watched
from reconet.models.network_info import NetworkInfo
from reconet.models.trained import TrainedNetwork, save_trained
from reconet.recipes.schema import Recipe
from reconet.system.distributed import World, joined
from reconet.system.run_files import BEST, LAST

T = TypeVar("T")
SEEN = (
    "validation images are also trained on: scores say nothing about new images, and the last "
    "network is kept as the best."
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    directory: Path
    step: int
    steps: int
    stopped_by: int | None  # the signal that stopped it early
    leads: bool  # of many processes, the one that talks to the user

    @property
    def finished(self) -> bool:
        return self.step == self.steps


def run_training(
    recipe: Recipe, directory: Path, *, resume: bool = False, device: str = "auto"
) -> Outcome:
    """Train a recipe in a run directory, from its beginning or from its last checkpoint."""
    # torchrun starts all processes again when one has died: then the run goes on by itself.
    resume = resume or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0
    with ExitStack() as stack:
        world = stack.enter_context(joined(device))
        directory = Path(world.share(str(directory)))
        stack.enter_context(_entered(world, directory))
        goes_on = decide(world, lambda: enter(directory, recipe, resume=resume))
        return _Run(recipe, directory, world, goes_on=goes_on).go()


@contextmanager
def _entered(world: World, directory: Path) -> Iterator[None]:
    with ExitStack() as stack:
        decide(world, lambda: stack.enter_context(locked(directory)))
        yield


def decide(world: World, action: Callable[[], T]) -> T:
    """Let the leading process do something for all; its error ends all of them."""
    result: T | None = None
    error: ReconetError | None = None
    if world.leads:
        try:
            result = action()
        except ReconetError as raised:
            error = raised
    failed = world.share(error is not None)
    if error is not None:
        raise error
    if failed:
        sys.exit(2)  # the leading process says why
    return result if world.size == 1 else world.share(result)  # type: ignore[return-value]


class _Run:
    """One training from here to its end."""

    def __init__(self, recipe: Recipe, directory: Path, world: World, *, goes_on: bool) -> None:
        self.recipe, self.directory, self.world = recipe, directory, world
        self.train_set = open_split(recipe.data, recipe.data.train_split)
        self.val_set = open_split(recipe.data, recipe.data.val_split)
        check_labels(self.train_set, self.val_set)
        self.seen_in_training = share_images(self.train_set, self.val_set)
        self.steps = total_steps(recipe, len(self.train_set))
        check_precision(recipe, world)
        torch.manual_seed(recipe.train.seed)
        torch.use_deterministic_algorithms(recipe.train.deterministic, warn_only=True)
        self.state = make_state(recipe, len(self.train_set.info.classes), world, fresh=not goes_on)
        self.progress = Progress()
        if goes_on:
            self.progress = load_last(directory / LAST, self.state)
        self.stop = StopSwitch()
        self.display = Display(self.steps, enabled=world.leads)
        self.log = Log(directory, self.state.step) if world.leads else None

    def go(self) -> Outcome:
        start = self.state.step
        if start < self.steps or self.progress.validated < self.steps:
            decide(self.world, self._check_room)
            decide(self.world, lambda: note_start(self.directory, start, self.world))
            with signals(self.stop), self.display, self._tensorboard() as self.events:
                self._go_on(start)
        if self.state.step == self.steps and self.world.leads:
            prediction_sheet(self.directory, self.val_set, self.world.device)
        return Outcome(
            directory=self.directory,
            step=self.state.step,
            steps=self.steps,
            stopped_by=self.stop.signal,
            leads=self.world.leads,
        )

    def _go_on(self, start: int) -> None:
        if self.seen_in_training:
            self.display.line(SEEN)
        # A validation may have failed or been stopped, and the step before it been saved.
        validated = self.progress.validated
        stopped = start > 0 and not self._validate()
        if stopped or self.progress.validated != validated:
            self._save()
        if not stopped:
            self._loop(start)

    def _loop(self, start: int) -> None:
        recipe, settings = self.recipe, self.recipe.train
        stream = batches(
            self.train_set,
            geometry(recipe),
            seed=settings.seed,
            batch=settings.batch,
            steps=self.steps,
            start=start,
            rank=self.world.rank,
            world=self.world.size,
            workers=recipe.data.workers,
            on_error=recipe.data.on_error,
            keep=False,
        )
        self.clock, self.clock_step = time.monotonic(), start
        stream = agreed(stream, self.world)
        # Closed by name, so that no exchange of gradients outlives its process group.
        with closing(train(self.state, stream, recipe, self.steps, self.world, self.stop)) as steps:
            while (step := self._next(steps)) is not None:
                if self._after(step):
                    break

    def _next(self, steps: Iterator[Step]) -> Step | None:
        try:
            return next(steps, None)
        except DataError:
            self._save()  # a broken image must not cost the steps before it
            raise

    def _after(self, step: Step) -> bool:
        """Log, validate, save, as far as it is time for it; whether to stop."""
        settings, last = self.recipe.train, step.done == self.steps
        self.progress = replace(
            self.progress,
            loss_sum=self.progress.loss_sum + step.loss,
            loss_count=self.progress.loss_count + 1,
        )
        self.display.step(step)
        if step.done % settings.log_every == 0 or last:
            self._log_training(step)
        stopped = step.stop or not self._validate()
        if step.done % settings.save_every == 0 or last or stopped:
            self._save()
        return stopped

    def _log_training(self, step: Step) -> None:
        now, images = time.monotonic(), self.recipe.train.batch * (step.done - self.clock_step)
        speed, memory = images / max(1e-9, now - self.clock), memory_mb(self.world.device)
        self.clock, self.clock_step = now, step.done
        figures = {
            "loss": self.progress.loss_sum / self.progress.loss_count,
            "lr": step.lr,
            "images_per_second": round(speed, 2),
            "memory_mb": memory,
        }
        self.progress = replace(self.progress, loss_sum=0.0, loss_count=0)
        self._write("train", step.done, figures)
        self.display.figures(step.done, figures)

    def _validate(self) -> bool:
        """If it is time for it; False if it was asked to stop. What fails here is still to be done
        after a restart."""
        step, settings = self.state.step, self.recipe.train
        due = step % settings.eval_every == 0 or step == self.steps
        if not due or self.progress.validated == step:
            return True
        try:
            figures, iou_k = self._scores()
        except StoppedError:
            return False
        except DataError:
            self._save()
            raise
        self._write("val", step, {**figures, "iou": [round(v, 6) for v in iou_k.tolist()]})
        self.display.line(f"step {step}: mIoU {100 * figures['miou']:.2f} %")
        better = figures["miou"] > self.progress.best_score
        best_score = max(figures["miou"], self.progress.best_score)
        self.progress = replace(self.progress, best_score=best_score, validated=step)
        if better or self.seen_in_training:
            decide(self.world, lambda: self._save_best(figures))
        return True

    def _scores(self) -> tuple[dict[str, float], Tensor]:
        model, data, info = self.state.best_model, self.recipe.data, self.val_set.info
        skipped: list[Skipped] = []
        mine = self.world.part_of(len(self.val_set))
        with watched(model.context) as seen, self.display.validation(mine) as tick:
            count_kk = evaluate(
                model,
                self.val_set,
                self.world,
                protocol=Protocol.in_training(data),
                workers=data.workers,
                on_image=tick,
                on_skip=skipped.append if data.on_error == "skip" else None,
                stop=self.stop,
            )
        self.world.agree(None if count_kk.any() else nothing_scored(self.val_set))
        figures = score_figures(count_kk, info.name, info.classes)
        if self.seen_in_training:
            figures["seen_in_training"] = True
        alive = mean_liveness(seen)
        if alive is not None:
            figures |= alive._asdict()
        left_out = int(self.world.total(torch.tensor(len(skipped), device=self.world.device)))
        if left_out:
            self.display.line(f"validation left out {left_out} images that cannot be read")
            figures["skipped"] = left_out
        return figures, benchmark_scores(count_kk, info.name, info.classes).iou_k

    def _save_best(self, figures: dict[str, float]) -> None:
        info = self.val_set.info
        save_trained(
            self.directory / BEST,
            TrainedNetwork(
                model=self.state.best_model,
                info=NetworkInfo(
                    recipe=self.recipe,
                    classes=info.classes,
                    palette=info.palette,
                    step=self.state.step,
                    score=figures,
                ),
            ),
        )

    def _save(self) -> None:
        decide(self.world, lambda: save_last(self.directory / LAST, self.state, self.progress))

    def _write(self, kind: str, step: int, figures: dict[str, Any]) -> None:
        if self.log is None:
            return
        self.log.write(kind=kind, step=step, **figures)
        for name, value in figures.items():
            if isinstance(value, float):
                self.events.add_scalar(f"{kind}/{name}", value, step)

    @contextmanager
    def _tensorboard(self) -> Iterator[Any]:
        if not self.world.leads:
            yield None
            return
        from torch.utils.tensorboard import SummaryWriter

        purge = self.state.step + 1 if self.state.step else None
        with SummaryWriter(str(self.directory), purge_step=purge) as events:
            yield events

    def _check_room(self) -> None:
        """Say before the first step what would fail after hours."""
        weights = 4 * sum(p.numel() for p in self.state.model.parameters())
        checkpoint = 2 * weights * (2 if self.state.ema else 1)
        free = shutil.disk_usage(self.directory).free
        if free < 2 * checkpoint + weights:
            raise OutputError(
                f"{self.directory} has {free / 1e6:.0f} MB free, and a checkpoint of "
                f"{checkpoint / 1e6:.0f} MB is written beside the last one."
            )
        warning = memory_warning(self.recipe, self.state, self.world)
        if warning:
            self.display.line(warning)
