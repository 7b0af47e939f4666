"""Let many processes work as one.

torchrun starts the processes and sets RANK, WORLD_SIZE and LOCAL_RANK. Without torchrun there is
one process, and nothing here communicates.
"""

import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, TypeVar
from uuid import uuid4

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from reconet.errors import (
    DataError,
    OtherProcessError,
    RecipeError,
    ReconetError,
    first_line,
)

T = TypeVar("T")
# For one exchange. NCCL's own 10 minutes are less than one process may need to download weights or
# to check cached features. A machine that lost power is given up after this time.
TIMEOUT = timedelta(hours=2)
MEET = timedelta(minutes=5)  # for all processes of a start to be there


@dataclass(frozen=True, kw_only=True)
class Processes:
    """The processes that share a task, seen from this one."""

    rank: int  # the number of this process
    size: int  # how many there are
    device: torch.device  # of this process
    local_rank: int = 0  # its number on its machine
    group: Any = None  # of torch, if these are not all processes

    @classmethod
    def single(cls, device: torch.device) -> Self:
        """Return the one process of a task without torchrun."""
        return cls(rank=0, size=1, device=device)

    @property
    def is_first(self) -> bool:
        """Tell whether this process writes the files and talks to the user."""
        return self.rank == 0

    def share_of(self, count: int) -> int:
        """Return how many of `count` images this process gets if they are dealt out in turn."""
        return len(range(self.rank, count, self.size))

    def sum(self, value: Tensor) -> Tensor:
        """Sum a tensor over all processes."""
        if self.size > 1:
            value = value.clone()
            dist.all_reduce(value, group=self.group)
        return value

    def sum_flags(
        self, value: Tensor, flags: Sequence[Callable[[], bool]]
    ) -> tuple[Tensor, Callable[[], list[bool]]]:
        """Sum a tensor, and ask in the same message whether a process has a flag raised.

        The function that is returned says so. It waits for this message, but not for work that a
        GPU was given after it. One process exchanges nothing, and looks when it is asked.
        """
        if self.size == 1:
            return value, lambda: [flag() for flag in flags]
        own = [value.new_full((1,), flag()) for flag in flags]
        sums = self.sum(torch.cat([value, *own]))
        raised = sums[-len(own) :].to("cpu", non_blocking=True)
        arrived = torch.cuda.current_stream().record_event() if sums.is_cuda else None

        def read() -> list[bool]:
            if arrived is not None:
                arrived.synchronize()
            return [bool(flag) for flag in raised.tolist()]

        return sums[: -len(own)], read

    def broadcast(self, value: Any) -> Any:
        """Return the first process's value on all processes."""
        if self.size == 1:
            return value
        box = [value]
        first = 0 if self.group is None else dist.get_global_rank(self.group, 0)
        dist.broadcast_object_list(box, src=first, group=self.group)
        return box[0]

    def gather(self, value: T) -> list[T]:
        """Return the values of all processes on all processes."""
        if self.size == 1:
            return [value]
        box: list[Any] = [None] * self.size
        dist.all_gather_object(box, value, group=self.group)
        return box

    def raise_together(self, error: Exception | None) -> None:
        """Raise an error on all processes if one of them has one.

        Otherwise the others would wait for ever for a process that has left. The first process of
        each machine gives the reason. A bug prints its traceback where it happened.
        """
        if self.size == 1 and error is not None:
            raise error
        reasons = self.gather(None if error is None else _reason(error))
        reason = next((reason for reason in reasons if reason is not None), None)
        if reason is None:
            return
        if error is not None and not isinstance(error, ReconetError | OSError | MemoryError):
            traceback.print_exception(error)
        raise (DataError if self.local_rank == 0 else OtherProcessError)(reason) from error

    @contextmanager
    def together(self) -> Iterator[None]:
        """End all processes if one fails in here. What is done in here must not wait for others."""
        error = None
        try:
            yield
        except Exception as raised:  # a bug on one process must not leave the others waiting
            error = raised
        self.raise_together(error)

    def run_on_first(self, action: Callable[[], T]) -> T:
        """Run `action` on the first process and return its result on all of them.

        If it fails, with whatever error, all processes end.
        """
        with self.together():
            result = action() if self.is_first else None
        return self.broadcast(result)  # type: ignore[no-any-return]

    @contextmanager
    def first_holds(
        self, open_context: Callable[[], AbstractContextManager[object]]
    ) -> Iterator[None]:
        """Let the first process hold something, such as a lock, while all of them work."""
        with ExitStack() as stack:

            def enter() -> None:
                stack.enter_context(open_context())

            self.run_on_first(enter)
            yield
            self.gather(None)  # all are done

    def sharing(self, folder: Path) -> "Processes":
        """Return the processes that see this `folder`: all of them, or those of this machine."""
        machines = self.gather(os.environ.get("GROUP_RANK", "0"))
        if len(set(machines)) == 1:
            return self
        name = f".seen-{uuid4().hex}"
        with suppress(OSError):
            if self.is_first:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / name).touch()
        sign = folder / self.broadcast(name)
        shared = all(self.gather(sign.exists()))
        if self.is_first:
            sign.unlink(missing_ok=True)
        if shared:
            return self
        # Every process must take part in making every group.
        members = {
            machine: [rank for rank, place in enumerate(machines) if place == machine]
            for machine in sorted(set(machines))
        }
        groups = {place: dist.new_group(ranks, TIMEOUT) for place, ranks in members.items()}
        own = machines[self.rank]
        rank, size = members[own].index(self.rank), len(members[own])
        return replace(self, rank=rank, size=size, group=groups[own])


@contextmanager
def join_processes(device: str = "auto") -> Iterator[Processes]:
    """Join the other processes of a torchrun launch, if there is one."""
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    chosen = pick_device(device, local_rank, size)
    if size == 1:
        yield Processes.single(chosen)
        return
    store, rank, size = next(rendezvous("env://"))
    store = _fresh_part(store, rank, size)
    backend = "nccl" if chosen.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    try:
        yield Processes(rank=rank, size=size, device=chosen, local_rank=local_rank)
        dist.barrier()  # nobody leaves while another process still listens to it
    except Exception as error:
        if isinstance(error, ReconetError):  # all have it
            dist.destroy_process_group()
        raise  # else others may wait for this one. NCCL would wait for them: torchrun ends them
    dist.destroy_process_group()


def _fresh_part(store: Any, rank: int, size: int) -> Any:
    """Return a part of a store that only the processes of this start know.

    After a restart torchrun hands out the same store, with the addresses of processes that are
    gone, and machines may count restarts differently. So each process calls the first one under a
    name that it has never used, and the first one answers with the name of the part.
    """
    store.set_timeout(MEET)
    own, deadline = uuid4().hex, time.monotonic() + MEET.total_seconds()
    if rank > 0:
        store.set(f"process {rank}", own)
        part = store.get(own).decode()
        store.set(f"{part} {rank}", "here")
        return dist.PrefixStore(part, store)  # type: ignore[attr-defined]
    others = range(1, size)
    while not store.check([f"{own} {other}" for other in others]):
        for call in [f"process {other}" for other in others]:
            if store.check([call]):
                store.set(store.get(call).decode(), own)
        if time.monotonic() > deadline:
            raise RuntimeError("Timed out: other processes of this task have not started.")
        time.sleep(0.05)
    return dist.PrefixStore(own, store)  # type: ignore[attr-defined]


def _reason(error: Exception) -> str:
    own = isinstance(error, ReconetError)
    return str(error) if own else f"{type(error).__name__}: {first_line(error)}"


def pick_device(name: str, local_rank: int = 0, size: int = 1) -> torch.device:
    """Return the device called `name`. "auto" means a GPU if there is one, else the CPU.

    If there are several processes, each takes the GPU of its own number.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type == "cuda" and size > 1:
            device = torch.device("cuda", local_rank)
            torch.cuda.set_device(device)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise RecipeError(f"there is no device {name!r} here; try cpu.") from error
    return device
