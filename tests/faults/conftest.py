"""One fork server and one undisturbed run for all tests of faults."""

from collections.abc import Iterator

import pytest

from tests.faults.client import ForkServer, UndisturbedRun, arguments


@pytest.fixture(scope="session")
def server() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.process.communicate()


@pytest.fixture(scope="session")
def undisturbed(server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> UndisturbedRun:
    directory = tmp_path_factory.mktemp("undisturbed") / "run"
    result = server.run(arguments(directory))
    assert result.code == 0, result.output
    return UndisturbedRun(directory, result.seconds)
