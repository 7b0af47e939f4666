from pathlib import Path

import pytest

from tests.data.trees import TREES, make_tree


@pytest.fixture(scope="package")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("trees")
    for name in TREES:
        make_tree(name, root / name)
    return root
