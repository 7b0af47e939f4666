"""The training loop: a generator that updates the weights, its optimiser, and how it is stopped."""

import copy
import math
import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from operator import itemgetter
from threading import current_thread, main_thread
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from reconet.cache import FeatureBatch
from reconet.data.loader import Batch
from reconet.errors import DataError, TrainingError
from reconet.models.features import Features, Logits
from reconet.models.losses import segmentation_loss, step_counts
from reconet.models.segmenter import Segmenter
from reconet.recipes.schema import Optim, Recipe
from reconet.system.distributed import Processes
from reconet.system.hardware import autocast

AnyBatch = Batch | FeatureBatch
DIVERGED = "It was not saved. Try a lower optim.lr, or optim.clip=1."
SECOND_BETA = 0.999  # of AdamW
# Parts of the names of parameters that are no weights of a layer.
NOT_DECAYED = ("_token", "position_embeddings", "relative_position_bias")


class Step(NamedTuple):
    """One optimiser step of this process."""

    done: int  # how many steps are done after it
    loss: Tensor  # this process's part, still on its device
    lr: float
    names: tuple[str, ...]  # of its images
    skipped: tuple[str, ...]  # images that could not be read
    stop: bool  # some process was asked to stop


class Ema:
    """A copy of a network whose weights are a running mean of the original's."""

    def __init__(self, model: Segmenter, decay: float) -> None:
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for mean, value in zip(
            self.model.state_dict().values(), model.state_dict().values(), strict=True
        ):
            if mean.is_floating_point():
                mean.lerp_(value.to(mean.dtype), 1 - self.decay)
            else:
                mean.copy_(value)


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
        return self.model if self.ema is None else self.ema.model


class StopSwitch:
    """Asks the loop to stop after the current step, once a signal has set it."""

    signal: int | None = None

    def __call__(self) -> bool:
        return self.signal is not None


@contextmanager
def stop_on_signals(stop: StopSwitch) -> Iterator[None]:
    """Set `stop` on Ctrl-C and SIGTERM. A second Ctrl-C interrupts at once.

    In a thread, as of a notebook, Python does not allow it, and signals do what they did before.
    """
    if current_thread() is not main_thread():
        yield
        return

    def handle(number: int, frame: object) -> None:
        if stop.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.signal = number

    before = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def training_steps(
    state: State,
    batches: Iterable[AnyBatch],
    recipe: Recipe,
    steps: int,
    processes: Processes,
    stop: Callable[[], bool] = lambda: False,
    class_weights: Sequence[float] | None = None,
) -> Generator[Step, None, None]:
    """Train from `state.step` to `steps`, and yield after every step.

    `batches` must start at the same step. Nothing is read from the device, so a GPU never waits.
    read_losses() tells whether the steps were any good. `class_weights` stand in for "balanced".

    Batches are fetched one step ahead. So that a process that cannot read one says so in a message
    that a step sends anyway, and all end before any of them waits for a gradient.
    """
    net = distribute(state.model, processes)
    weights = class_weights or recipe.loss.class_weights
    weight_k = None if weights is None else torch.tensor(weights, device=processes.device)
    stride, stream = recipe.loss.stride, iter(batches)
    batch, error = _fetch(stream)
    processes.raise_together(error)
    while batch is not None:
        following, error = _fetch(stream)
        state.model.train()
        lr = learning_rate(recipe.optim, batch.step, steps)
        for group in state.optimizer.param_groups:
            group["lr"] = lr * group["lr_factor"]
        seed_step(recipe.train.seed, batch.step, processes.rank)
        label_bhw = _move(batch.label_bhw, processes.device)
        label_bhw = label_bhw[:, stride // 2 :: stride, stride // 2 :: stride]
        counts_2, flags = processes.sum_flags(
            step_counts(label_bhw, weight_k), [stop, partial(bool, error)]
        )
        loss = _backward(net, state, batch, label_bhw, recipe, processes, counts_2, weight_k)
        if recipe.optim.clip is not None:
            state.scaler.unscale_(state.optimizer)
            torch.nn.utils.clip_grad_norm_(state.model.parameters(), recipe.optim.clip)
        state.scaler.step(state.optimizer)
        state.scaler.update()
        state.model.context.after_step()
        if state.ema is not None:
            state.ema.update(state.model)
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


def distribute(model: Segmenter, processes: Processes) -> nn.Module:
    """Let processes exchange gradients, if there are several."""
    if processes.size == 1:
        return model
    return DistributedDataParallel(
        model,
        device_ids=[processes.device] if processes.device.type == "cuda" else None,
        # Few contexts read all maps, so layers beside the way to the last may get no gradient.
        find_unused_parameters=model.backbone.has_side_layers and not model.frozen,
        forward_sync_buffers=False,  # batch norm is synchronised, so buffers agree
    )


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
    images, size = len(label_bhw), (label_bhw.shape[1], label_bhw.shape[2])
    micro = recipe.train.micro_batch or images
    total = torch.zeros((), device=processes.device)
    state.optimizer.zero_grad()
    for first in range(0, images, micro):
        rows = slice(first, first + micro)
        label = label_bhw[rows]
        last = first + micro >= images  # only then do processes exchange gradients
        waits = isinstance(net, DistributedDataParallel) and not last
        with net.no_sync() if waits else nullcontext():  # type: ignore[operator]
            with autocast(processes.device, recipe.train.precision):
                logits: Logits = net(_map_inputs(inputs, itemgetter(rows)), size)
            loss = segmentation_loss(
                logits, label, recipe.loss, counts_2=counts_2, class_weight_k=class_weight_k
            )
            # A context's own loss is a mean over its images. Weighted so, micro-batches add up.
            share = len(label) / recipe.train.batch
            loss = loss + state.model.context.loss(logits.extra, label) * share
            # DDP takes the mean over processes; the loss is a sum over them.
            state.scaler.scale(loss * processes.size).backward()
            total += loss.detach()
    return total


def _map_inputs(inputs: Tensor | Features, change: Callable[[Tensor], Tensor]) -> Tensor | Features:
    return Features(*map(change, inputs)) if isinstance(inputs, Features) else change(inputs)


def make_optimizer(model: Segmenter, optim: Optim) -> torch.optim.Optimizer:
    """Make the optimiser, with groups of parameters that share a learning rate.

    The backbone learns at the base rate, everything after it `head_lr_factor` times faster, and
    the context's core `core_lr_factor` times faster than that. With `layer_decay`, each layer of
    the backbone learns slower than the one after it.
    """
    core = model.context.core
    # The core is a group only if it has a rate of its own: older checkpoints stay readable.
    in_core = list(core.parameters()) if core is not None and optim.core_lr_factor != 1 else []
    backbone = model.trunk_parameters()
    known = {id(parameter) for parameter in [*backbone, *in_core]}
    head = [parameter for parameter in model.parameters() if id(parameter) not in known]
    factors = [(backbone, 1.0)]
    if optim.layer_decay != 1:
        factors = _layers(model, optim.layer_decay)
    factors.append((head, optim.head_lr_factor))
    if in_core:
        factors.append((in_core, optim.head_lr_factor * optim.core_lr_factor))
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if p.requires_grad], "lr_factor": factor}
        for parameters, factor in factors
    ]
    if optim.kind == "sgd":
        return torch.optim.SGD(
            groups, lr=optim.lr, momentum=optim.momentum, weight_decay=optim.weight_decay
        )
    without_decay = {
        id(parameter)
        for name, parameter in model.named_parameters()
        if parameter.ndim <= 1 or any(part in name for part in NOT_DECAYED)
    }
    groups = [
        {
            **group,
            "params": [p for p in group["params"] if (id(p) in without_decay) == chosen],
            "weight_decay": 0.0 if chosen else optim.weight_decay,
        }
        for group in groups
        for chosen in (False, True)
    ]
    return torch.optim.AdamW(groups, lr=optim.lr, betas=(optim.momentum, SECOND_BETA))


def _layers(model: Segmenter, decay: float) -> list[tuple[list[nn.Parameter], float]]:
    """Group the backbone by depth. The last layer is one step of decay below the head."""
    depths = model.backbone.parameter_depths()
    last = max(depths.values(), default=0)
    layers: list[list[nn.Parameter]] = [[] for _ in range(last + 1)]
    for name, parameter in model.backbone.named_parameters():
        layers[depths.get(name, 0)].append(parameter)
    if model.project is not None:
        layers[last].extend(model.project.parameters())
    return [(layer, decay ** (last + 1 - depth)) for depth, layer in enumerate(layers)]


def learning_rate(optim: Optim, step: int, steps: int) -> float:
    """Return the base rate of a step, which depends on the step alone.

    It decays from `lr` at step 0 to zero at `steps`, below a straight rise in the warm-up.
    """
    lr = optim.lr * math.pow(max(0.0, 1.0 - step / steps), optim.power)
    return lr * (step + 1) / optim.warmup if step < optim.warmup else lr
