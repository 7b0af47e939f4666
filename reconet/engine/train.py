"""The training loop, as a generator: it updates the weights, and the caller does the rest."""

import contextlib
import inspect
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

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
from reconet.system.precision import autocast

AnyBatch = Batch | FeatureBatch


class Step(NamedTuple):
    """One optimiser step, over all processes."""

    done: int  # how many steps are done after it
    loss: float
    lr: float
    skipped: tuple[str, ...]  # images of this process that could not be read
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


def fail_together(batches: Iterable[AnyBatch], processes: Processes) -> Iterator[AnyBatch]:
    """Pass batches on. An error of one process ends all, before any waits for a gradient."""
    stream = iter(batches)
    while True:
        batch, error = None, None
        try:
            batch = next(stream, None)
        except DataError as raised:
            error = raised
        processes.raise_together(error)
        if batch is None:
            return
        yield batch


def train(
    state: State,
    batches: Iterable[AnyBatch],
    recipe: Recipe,
    steps: int,
    processes: Processes,
    stop: StopSwitch | None = None,
) -> Generator[Step, None, None]:
    """Train from `state.step` to `steps`, and yield after every step.

    `batches` must start at the same step.
    """
    stop = stop or StopSwitch()
    net = _distribute(state.model, processes)
    class_weight_k = _class_weights(recipe, state.model.num_classes, processes.device)
    for batch in batches:
        state.model.train()
        lr = set_lr(state.optimizer, recipe.optim, batch.step, steps)
        seed_step(recipe.train.seed, batch.step, processes.rank)
        loss, stopping = _backward(net, state, batch, recipe, processes, class_weight_k, stop)
        if not torch.tensor(loss).isfinite():
            raise _divergence_error(loss, lr, batch, processes)
        _update_weights(state, recipe)
        state.step = batch.step + 1
        yield Step(state.step, loss, lr, batch.skipped, stopping)


def seed_step(seed: int, step: int, rank: int) -> None:
    """Seed dropout by (seed, step, rank), so that no generator needs saving."""
    digest = blake2b(f"{seed} {step} {rank}".encode(), digest_size=8).digest()
    torch.manual_seed(int.from_bytes(digest, "little"))


def _distribute(model: Segmenter, processes: Processes) -> nn.Module:
    if processes.size == 1:
        return model
    # Batch norm is synchronised, so buffers agree without being sent. torch 2.13 renamed the
    # setting.
    devices = [processes.device] if processes.device.type == "cuda" else None
    known = inspect.signature(DistributedDataParallel).parameters
    buffers = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    own: Any = {buffers: False}
    # Few contexts read all maps, so layers beside the way to the last may get no gradient.
    unused = model.backbone.has_side_layers and not model.frozen
    return DistributedDataParallel(model, device_ids=devices, find_unused_parameters=unused, **own)


def _backward(
    net: nn.Module,
    state: State,
    batch: AnyBatch,
    recipe: Recipe,
    processes: Processes,
    class_weight_k: Tensor | None,
    stop: StopSwitch,
) -> tuple[float, bool]:
    """Compute the gradients of a step. Return its loss over all processes, and whether to stop."""
    stride = recipe.loss.stride
    label_bhw = batch.label_bhw[:, stride // 2 :: stride, stride // 2 :: stride]
    label_bhw = label_bhw.to(processes.device, non_blocking=True)
    inputs = _map_inputs(batch.inputs, lambda x: x.to(processes.device, non_blocking=True))
    if not recipe.train.channels_last:
        inputs = _map_inputs(inputs, Tensor.contiguous)
    counts_2 = processes.sum(step_counts(label_bhw, class_weight_k))
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
    stopping = loss.new_tensor(float(stop()))
    total, stops = processes.sum(torch.stack([loss, stopping])).tolist()
    return total, stops > 0


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


def _divergence_error(
    loss: float, lr: float, batch: AnyBatch, processes: Processes
) -> TrainingError:
    names = [name for names in processes.gather(batch.names) for name in names]
    return TrainingError(
        f"the loss is {loss} at step {batch.step} with learning rate {lr:.3g}; images: "
        f"{', '.join(names)}. Try a lower optim.lr, or optim.clip=1."
    )
