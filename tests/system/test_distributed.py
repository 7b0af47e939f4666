"""One process among several, without starting any."""

import pytest
import torch

from reconet.errors import OtherProcessError, RecipeError, TrainingError
from reconet.system.distributed import Processes, pick_device

CPU = torch.device("cpu")


class Told(Processes):
    """A process that receives what the first one would send."""

    def broadcast(self, value: object) -> object:
        return True


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


def test_the_other_processes_end_without_running_what_failed_on_the_first() -> None:
    with pytest.raises(OtherProcessError):
        Told(rank=1, size=2, device=CPU).run_on_first(lambda: pytest.fail("only the first runs it"))


def test_a_device_that_is_not_there_is_named() -> None:
    assert pick_device("cpu") == CPU
    with pytest.raises(RecipeError, match="there is no device 'cuda:7'"):
        pick_device("cuda:7")
