"""Let many processes work as one.

torchrun starts the processes and sets RANK, WORLD_SIZE and LOCAL_RANK. Without torchrun there is
one process, and nothing here communicates.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from reconet.errors import DataError, OtherProcessError, RecipeError, ReconetError

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Processes:
    """The processes that share a task, seen from this one."""

    rank: int  # the number of this process
    size: int  # how many there are
    device: torch.device  # of this process

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
            dist.all_reduce(value)
        return value

    def broadcast(self, value: Any) -> Any:
        """Return the first process's value on all processes."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all processes on all processes."""
        if self.size == 1:
            return [value]
        box: list[Any] = [None] * self.size
        dist.all_gather_object(box, value)
        return box

    def raise_together(self, error: ReconetError | None) -> None:
        """Raise an error on all processes if one of them has one.

        Otherwise the others would wait for ever for a process that has left.
        """
        if self.size == 1 and error is not None:
            raise error
        failed = torch.tensor(float(error is not None), device=self.device)
        if not self.sum(failed):
            return
        reasons = self.gather(None if error is None else str(error))
        reason = next(reason for reason in reasons if reason is not None)
        raise DataError(reason) if self.is_first else OtherProcessError(reason)

    def run_on_first(self, action: Callable[[], T]) -> T:
        """Run `action` on the first process and return its result on all of them.

        If it fails, all processes end and the first one reports the error.
        """
        if self.size == 1:
            return action()
        result: T | None = None
        error: ReconetError | None = None
        if self.is_first:
            try:
                result = action()
            except ReconetError as raised:
                error = raised
        failed = self.broadcast(error is not None)
        if error is not None:
            raise error
        if failed:
            raise OtherProcessError("the first process failed and reports why.")
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
            if self.size > 1:
                dist.barrier()


@contextmanager
def join_processes(device: str = "auto") -> Iterator[Processes]:
    """Join the other processes of a torchrun launch, if there is one."""
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    chosen = pick_device(device, int(os.environ.get("LOCAL_RANK", 0)), size)
    if size == 1:
        yield Processes.single(chosen)
        return
    store, rank, size = next(rendezvous("env://"))
    if os.environ.get("GROUP_WORLD_SIZE") == "1":
        # One machine: after a restart torchrun hands out the same store, with the addresses of
        # processes that are gone. (Several machines may count restarts differently.)
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = dist.PrefixStore(f"attempt {attempt}", store)  # type: ignore[attr-defined]
    backend = "nccl" if chosen.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    try:
        yield Processes(rank=rank, size=size, device=chosen)
        dist.barrier()  # nobody leaves while another process still listens to it
    finally:
        dist.destroy_process_group()


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
