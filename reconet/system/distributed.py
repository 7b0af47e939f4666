"""Many processes as one: who we are, and sums over all.

The launcher is torchrun; it sets RANK, WORLD_SIZE and LOCAL_RANK. Without it there is one process
and nothing here communicates.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from reconet.errors import DataError, EchoError, RecipeError, ReconetError


@dataclass(frozen=True, kw_only=True)
class World:
    """This process among the others."""

    rank: int
    size: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """One process writes files and talks to the user."""
        return self.rank == 0

    def part_of(self, count: int) -> int:
        """How many of so many images are this process's, dealt out one by one."""
        return len(range(self.rank, count, self.size))

    def total(self, value: Tensor) -> Tensor:
        """Sum over all processes."""
        if self.size > 1:
            value = value.clone()
            dist.all_reduce(value)
        return value

    def share(self, value: Any) -> Any:
        """What the leading process says, known to all."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def agree(self, error: ReconetError | None) -> None:
        """An error of one process becomes an error of all: nobody waits for one that has left."""
        if self.size == 1 and error is not None:
            raise error
        failed = torch.tensor(float(error is not None), device=self.device)
        if not self.total(failed):
            return
        reasons = self.gather(None if error is None else str(error))
        reason = next(reason for reason in reasons if reason is not None)
        raise DataError(reason) if self.leads else EchoError(reason)

    def gather(self, value: Any) -> list[Any]:
        """What each process says, known to all."""
        if self.size == 1:
            return [value]
        box: list[Any] = [None] * self.size
        dist.all_gather_object(box, value)
        return box


@contextmanager
def joined(device: str = "auto") -> Iterator[World]:
    """Join the other processes of a torchrun launch, if there is one."""
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    chosen = pick_device(device, int(os.environ.get("LOCAL_RANK", 0)), size)
    if size == 1:
        yield World(rank=0, size=1, device=chosen)
        return
    store, rank, size = next(rendezvous("env://"))
    if os.environ.get("GROUP_WORLD_SIZE") == "1":
        # One machine: after a restart the launcher hands out the same store, with the addresses of
        # processes that are gone. (Several machines may count restarts differently.)
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = dist.PrefixStore(f"attempt {attempt}", store)  # type: ignore[attr-defined]
    backend = "nccl" if chosen.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    try:
        yield World(rank=rank, size=size, device=chosen)
        dist.barrier()  # nobody leaves while another still listens to it
    finally:
        dist.destroy_process_group()


def pick_device(name: str, local_rank: int = 0, size: int = 1) -> torch.device:
    """ "auto" takes a GPU if there is one; each process of a machine takes its own."""
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
