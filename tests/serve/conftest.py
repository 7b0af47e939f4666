from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from reconet import Predictor
from tests.serve.helpers import client_of, lively_run
from tests.serve.launch import RunningServer, serving

WAITING = 8  # places in the queue of the real server


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lively_run(tmp_path_factory.mktemp("serve") / "run")


@pytest.fixture(scope="session")
def predictor(run: Path) -> Predictor:
    return Predictor.from_run(run, device="cpu", precision="fp32")


@pytest.fixture(scope="session")
def client(predictor: Predictor) -> Iterator[TestClient]:
    with client_of(predictor) as one:
        yield one


@pytest.fixture(scope="session")
def server(run: Path) -> Iterator[RunningServer]:
    """Start a real server in another process. That takes most of the time of its tests."""
    with serving(run, f"--queue={WAITING}", "--max-upload=2MB", "--max-pixels=4M") as one:
        yield one
