"""A projection is fitted once, and again only if its file is damaged."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from reconet.cache import cache_root, fit_projection
from reconet.errors import CheckpointError
from tests.cache.helpers import open_list
from tests.engine.steps import ALONE
from tests.factories import ProgressRecorder, tiny_model, tiny_recipe


def fitted(tree: Path, progress: ProgressRecorder | None = None) -> dict[str, Tensor]:
    torch.manual_seed(0)
    model = tiny_model("fcn", crop=(32, 48), project=8).eval()
    recipe = tiny_recipe("data.views=2", "data.crop=[32, 48]", "data.base_size=48")
    train_set = open_list(tree, "train")
    fit_projection(model, recipe, train_set, ALONE, progress=progress or ProgressRecorder())
    assert model.project is not None
    return {name: value.clone() for name, value in model.project.state_dict().items()}


def only_file() -> Path:
    [path] = (cache_root() / "projections").iterdir()
    return path


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in ("weight", "bias"))


def test_a_second_network_takes_the_projection_of_the_first(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fitted(tree)
    monkeypatch.setattr(
        "reconet.cache.projection._sample", lambda *args, **kwargs: pytest.fail("again")
    )
    progress = ProgressRecorder()
    assert equal(fitted(tree, progress), first)
    assert progress.lines == []


@pytest.mark.parametrize("place", [-1, -300, 12, 0.5])
def test_a_flipped_bit_anywhere_is_found(tree: Path, place: float) -> None:
    """Flip a bit of the last tensor, of the one before it, of the header, and in the middle."""
    first, path = fitted(tree), only_file()
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[int(place * len(whole)) if place == 0.5 else int(place)] ^= 1
    path.write_bytes(damaged)
    progress = ProgressRecorder()
    assert equal(fitted(tree, progress), first)
    assert f"{path} is damaged: the projection is fitted again" in progress.lines
    assert path.read_bytes() == whole


@pytest.mark.parametrize("part", [0.0, 0.001, 0.5, 0.999])
def test_a_file_that_was_cut_short_is_fitted_again(tree: Path, part: float) -> None:
    first, path = fitted(tree), only_file()
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    progress = ProgressRecorder()
    assert equal(fitted(tree, progress), first)
    assert sum("is damaged" in line for line in progress.lines) == 1
    assert path.read_bytes() == whole


def test_a_file_without_a_digest_is_fitted_again(tree: Path) -> None:
    before = fitted(tree)
    tensors = {name: value + 1 for name, value in load_file(only_file()).items()}
    save_file(tensors, only_file(), {"store.json": "{}"})
    assert equal(fitted(tree), before)


def test_a_file_that_leads_elsewhere_is_an_error(tree: Path, tmp_path: Path) -> None:
    fitted(tree)
    path = only_file()
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="a link that leads out of its folder"):
        fitted(tree)


def test_a_projection_has_the_same_bits_for_any_number_of_threads(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = fitted(tree)
    only_file().unlink()
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert equal(fitted(tree), one)
    finally:
        torch.set_num_threads(before)
