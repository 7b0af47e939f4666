from pathlib import Path

import pytest

from tests.report.helpers import make_run, small_recipe


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "one", small_recipe())
