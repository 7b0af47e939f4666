"""Make one network that all tests of inference share."""

from pathlib import Path

import pytest

from reconet.inference import Predictor
from reconet.models import save_trained
from tests.factories import tiny_network, tiny_recipe


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a decided network that sees small windows."""
    path = tmp_path_factory.mktemp("run") / "net.safetensors"
    recipe = tiny_recipe("data.crop=32", "data.base_size=48", "eval.mode=slide")
    save_trained(path, tiny_network(recipe, decided=True))
    return path


@pytest.fixture(scope="session")
def predictor(run: Path) -> Predictor:
    """Return that network as a predictor, in fp32."""
    return Predictor.from_run(run, device="cpu", precision="fp32")
