import os

import pytest

from reconet.data.parallel import map_in_processes
from reconet.errors import DataError


@pytest.mark.parametrize("workers", [0, 2])
def test_results_come_in_the_order_of_the_things(workers: int) -> None:
    assert list(map_in_processes(abs, range(-50, 3), workers)) == [abs(n) for n in range(-50, 3)]


def test_a_worker_that_was_ended_is_told() -> None:
    with pytest.raises(DataError, match="a worker process was ended"):
        list(map_in_processes(os._exit, [9], 1))
