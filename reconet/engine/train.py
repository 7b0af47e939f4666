"""The training loop, as a generator: it updates the weights, and the caller does the rest."""

import contextlib
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from reconet.cache import FeatureBatch
from reconet.data.loader import Batch
from reconet.engine.optim import Ema, set_lr
from reconet.engine.stop import StopSwitch
from reconet.errors import DataError, RecipeError, TrainingError
from reconet.models.features import Features, Logits
from reconet.models.losses import segmentation_loss, step_counts
from reconet.models.segmenter import Segmenter
from reconet.recipes.schema import Recipe
from reconet.system.distributed import Processes
from reconet.system.hardware import autocast

AnyBatch = Batch | FeatureBatch
DIVERGED = "It was not saved. Try a lower optim.lr, or optim.clip=1."


class Step(NamedTuple):
    """One optimiser step of this process."""

    done: int  # how many steps are done after it
    loss: Tensor  # this process's part, still on its device
    lr: float
    names: tuple[str, ...]  # of its images
    skipped: tuple[str, ...]  # images that could not be read
    stop: bool  # some process was asked to stop


@dataclass(kw_only=True)
class State:
    """Everything that changes during a training."""

    model: Segmenter
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    ema: Ema | None
    step: int = 0  # how many steps are done

    @property
    def best_model(self) -> Segmenter:
        """Return the network to evaluate and to keep: the running mean, if there is one."""
        if self.ema is None:
            return self.model
        assert isinstance(self.ema.model, Segmenter)
        return self.ema.model


def train(
    state: State,
    batches: Iterable[AnyBatch],
    recipe: Recipe,
    steps: int,
    processes: Processes,
    stop: StopSwitch | None = None,
) -> Generator[Step, None, None]:
    """Train from `state.step` to `steps`, and yield after every step.

    `batches` must start at the same step. Nothing is read from the device, so a GPU never waits.
    read_losses() tells whether the steps were any good.

    Batches are fetched one step ahead. So that a process that cannot read one says so in a message
    that a step sends anyway, and all end before any of them waits for a gradient.
    """
    stop = stop or StopSwitch()
    net = _distribute(state.model, processes)
    class_weight_k = _class_weights(recipe, state.model.num_classes, processes.device)
    stream = iter(batches)
    batch, error = _fetch(stream)
    processes.raise_together(error)
    while batch is not None:
        following, error = _fetch(stream)
        state.model.train()
        lr = set_lr(state.optimizer, recipe.optim, batch.step, steps)
        seed_step(recipe.train.seed, batch.step, processes.rank)
        label_bhw = _labels(batch, recipe, processes.device)
        counts_2, flags = processes.sum_flags(
            step_counts(label_bhw, class_weight_k), [stop, partial(bool, error)]
        )
        loss = _backward(net, state, batch, label_bhw, recipe, processes, counts_2, class_weight_k)
        _update_weights(state, recipe)
        state.step = batch.step + 1
        stopping, failed = flags()
        yield Step(state.step, loss, lr, batch.names, batch.skipped, stopping)
        if failed:
            processes.raise_together(error)
        batch = following


def _fetch(stream: Iterator[AnyBatch]) -> tuple[AnyBatch | None, DataError | None]:
    try:
        return next(stream, None), None
    except DataError as error:
        return None, error


def read_losses(steps: Sequence[Step], processes: Processes) -> list[float]:
    """Read the losses of steps from the device, over all processes. All must be numbers."""
    if not steps:
        return []
    own = torch.stack([step.loss for step in steps]).tolist()
    losses: list[float] = torch.tensor(processes.gather(own)).sum(0).tolist()
    for loss, step in zip(losses, steps, strict=True):
        if not math.isfinite(loss):
            names = ", ".join(name for names in processes.gather(step.names) for name in names)
            raise TrainingError(
                f"the loss is {loss} at step {step.done - 1} with learning rate {step.lr:.3g}; "
                f"images: {names}. {DIVERGED}"
            )
    return losses


def check_weights(state: State) -> None:
    """Raise if a number of the network is not finite. Then it must not be saved."""
    values = state.model.state_dict().values()
    if not torch.stack([value.isfinite().all() for value in values]).all():
        raise TrainingError(f"weights are not finite after step {state.step - 1}. {DIVERGED}")


def seed_step(seed: int, step: int, rank: int) -> None:
    """Seed dropout by (seed, step, rank), so that no generator needs saving."""
    digest = blake2b(f"{seed} {step} {rank}".encode(), digest_size=8).digest()
    torch.manual_seed(int.from_bytes(digest, "little"))


def _distribute(model: Segmenter, processes: Processes) -> nn.Module:
    if processes.size == 1:
        return model
    return DistributedDataParallel(
        model,
        device_ids=[processes.device] if processes.device.type == "cuda" else None,
        # Few contexts read all maps, so layers beside the way to the last may get no gradient.
        find_unused_parameters=model.backbone.has_side_layers and not model.frozen,
        forward_sync_buffers=False,  # batch norm is synchronised, so buffers agree
    )


def _labels(batch: AnyBatch, recipe: Recipe, device: torch.device) -> Tensor:
    stride = recipe.loss.stride
    return _move(batch.label_bhw, device)[:, stride // 2 :: stride, stride // 2 :: stride]


def _move(x: Tensor, device: torch.device) -> Tensor:
    # Only CUDA waits for memory that is not pinned. Elsewhere the next batch would overwrite it.
    return x.to(device, non_blocking=device.type == "cuda")


def _backward(
    net: nn.Module,
    state: State,
    batch: AnyBatch,
    label_bhw: Tensor,
    recipe: Recipe,
    processes: Processes,
    counts_2: Tensor,
    class_weight_k: Tensor | None,
) -> Tensor:
    """Compute the gradients of a step. Return this process's part of the loss."""
    inputs = _map_inputs(batch.inputs, partial(_move, device=processes.device))
    if not recipe.train.channels_last:
        inputs = _map_inputs(inputs, Tensor.contiguous)
    micro = recipe.train.micro_batch or len(label_bhw)
    chunks = [
        (_map_inputs(inputs, partial(_rows, first=first, count=micro)), label)
        for first, label in zip(
            range(0, len(label_bhw), micro), label_bhw.split(micro), strict=True
        )
    ]
    loss = torch.zeros((), device=processes.device)
    state.optimizer.zero_grad()
    for number, (part_inputs, label) in enumerate(chunks, start=1):
        with _only_last_syncs(net, number == len(chunks)):
            part = _loss(net, state.model, part_inputs, label, recipe, counts_2, class_weight_k)
            # DDP takes the mean over processes; the loss is a sum over them.
            state.scaler.scale(part * processes.size).backward()
            loss += part.detach()
    return loss


def _loss(
    net: nn.Module,
    model: Segmenter,
    inputs: Tensor | Features,
    label_bhw: Tensor,
    recipe: Recipe,
    counts_2: Tensor,
    class_weight_k: Tensor | None,
) -> Tensor:
    size = (label_bhw.shape[1], label_bhw.shape[2])
    with autocast(label_bhw.device, recipe.train.precision):
        logits: Logits = net(inputs, size)
    own = segmentation_loss(
        logits, label_bhw, recipe.loss, counts_2=counts_2, class_weight_k=class_weight_k
    )
    # A context's own loss is a mean over its images. Weighted so, micro-batches add up.
    return own + model.context.loss(logits.extra, label_bhw) * (len(label_bhw) / recipe.train.batch)


def _map_inputs(inputs: Tensor | Features, change: Callable[[Tensor], Tensor]) -> Tensor | Features:
    return Features(*map(change, inputs)) if isinstance(inputs, Features) else change(inputs)


def _rows(x: Tensor, *, first: int, count: int) -> Tensor:
    return x[first : first + count]


def _update_weights(state: State, recipe: Recipe) -> None:
    if recipe.optim.clip is not None:
        state.scaler.unscale_(state.optimizer)
        torch.nn.utils.clip_grad_norm_(state.model.parameters(), recipe.optim.clip)
    state.scaler.step(state.optimizer)
    state.scaler.update()
    state.model.context.after_step()
    if state.ema is not None:
        state.ema.update(state.model)


def _only_last_syncs(net: nn.Module, last: bool) -> contextlib.AbstractContextManager[object]:
    """Let only the last micro-batch of a step exchange gradients."""
    if last or not isinstance(net, DistributedDataParallel):
        return contextlib.nullcontext()
    return net.no_sync()


def _class_weights(recipe: Recipe, num_classes: int, device: torch.device) -> Tensor | None:
    weights = recipe.loss.class_weights
    if weights is None:
        return None
    assert weights != "balanced", "engine/balance.py puts numbers in its place"
    if len(weights) != num_classes:
        raise RecipeError(f"loss.class_weights: {len(weights)} values for {num_classes} classes.")
    return torch.tensor(weights, device=device)
