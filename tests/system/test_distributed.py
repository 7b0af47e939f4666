"""One process among several."""

from functools import partial
from pathlib import Path

import pytest
import torch

from reconet.errors import RecipeError, ReconetError, TrainingError
from reconet.system.distributed import Processes, pick_device
from tests.launch import in_two_processes

CPU = torch.device("cpu")


def test_images_are_dealt_out_to_all_processes() -> None:
    shares = [Processes(rank=rank, size=3, device=CPU).share_of(8) for rank in range(3)]
    assert shares == [3, 3, 2]


def test_a_single_process_communicates_with_nobody() -> None:
    alone = Processes.single(CPU)
    assert alone.is_first
    assert alone.sum(torch.tensor(3)) == 3
    assert alone.gather("a") == ["a"]
    assert alone.run_on_first(lambda: 7) == 7
    with pytest.raises(TrainingError, match="broken"):
        alone.raise_together(TrainingError("broken"))


def fail_in_many_ways(rank: int) -> list[str]:
    """Return how each failure ends on this process."""
    processes = Processes(rank=rank, size=2, device=CPU, local_rank=rank)

    def broken() -> None:
        raise ValueError("broken")  # a bug, not an error of the user

    def in_block(failing: int) -> None:
        with processes.together():
            if rank == failing:
                raise TrainingError("no memory")

    def held() -> None:
        with processes.first_holds(broken):  # type: ignore[arg-type]
            pytest.fail("nothing is held")

    ends = []
    works = (partial(processes.run_on_first, broken), held)
    for work in (*works, partial(in_block, 0), partial(in_block, 1)):
        try:
            work()
        except ReconetError as error:
            ends.append(f"{type(error).__name__}: {error}")
    sums, read = processes.sum_flags(torch.tensor([2, 3]), [lambda: rank == 1, lambda: False])
    return [*ends, str(sums.tolist()), str(read())]


def test_whatever_fails_on_one_process_ends_all_and_the_first_says_why(tmp_path: Path) -> None:
    first, other = in_two_processes(fail_in_many_ways, tmp_path)
    reasons = ["ValueError: broken"] * 2 + ["no memory"] * 2
    assert first == [*(f"DataError: {reason}" for reason in reasons), "[4, 6]", "[True, False]"]
    # What the others have is not printed.
    assert other[:4] == [f"OtherProcessError: {reason}" for reason in reasons]
    assert other[4:] == first[4:]


def test_a_device_that_is_not_there_is_named() -> None:
    assert pick_device("cpu") == CPU
    with pytest.raises(RecipeError, match="there is no device 'cuda:7'"):
        pick_device("cuda:7")
