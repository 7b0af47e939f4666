"""Files of trained networks: what was saved is loaded, and what is no network is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from reconet.errors import CheckpointError
from reconet.models.trained import (
    TrainedNetwork,
    find_weights,
    load_trained,
    save_compact,
    save_trained,
)
from reconet.system.run_files import BEST
from tests.factories import tiny_network, write_run


def test_a_network_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    trained = tiny_network(step=9, score={"miou": 0.25})
    run = write_run(tmp_path / "run", trained)
    for source in (run, run / BEST):
        loaded = load_trained(source)
        assert loaded.info == trained.info
        assert not loaded.model.training
        state = loaded.model.state_dict()
        for key, value in trained.model.state_dict().items():
            assert torch.equal(state[key], value), key


@pytest.mark.parametrize("name", ["model.onnx", "model.pt2", "model.xml", "last.pt", "notes.txt"])
def test_other_files_are_refused_with_what_to_name_instead(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"anything")
    message = "is not a trained network: name the run directory or its best.safetensors"
    with pytest.raises(CheckpointError, match=message):
        find_weights(tmp_path / name)


@pytest.mark.parametrize("save", [save_trained, save_compact])
def test_equal_networks_give_equal_files(
    tmp_path: Path, save: Callable[[Path, TrainedNetwork], None]
) -> None:
    """Write eight files: the library orders metadata by chance, so they would hardly agree."""
    files = [tmp_path / f"{number}.safetensors" for number in range(8)]
    for file in files:
        save(file, tiny_network())
    assert len({file.read_bytes() for file in files}) == 1


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"at .*none: it does not exist"):
        find_weights(tmp_path / "none")
    with pytest.raises(CheckpointError, match=r"at its validations\.$"):
        find_weights(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "best.safetensors").touch()
    with pytest.raises(CheckpointError, match=rf"holds runs; .*{tmp_path}/a, {tmp_path}/b\.$"):
        find_weights(tmp_path)
