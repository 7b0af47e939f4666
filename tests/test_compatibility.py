"""Every release reads the files of earlier ones.

tests/files holds files as a release wrote them: a network, its training state, and its logits for
one image. They are never written again. A new format gets new files beside them.
"""

import json
import shutil
import tomllib
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement

from reconet.engine import run_training, run_weights
from reconet.models import load_trained
from reconet.recipes import read_recipe

FILES = Path(__file__).parent / "files"
RELEASES = sorted(path.name for path in FILES.iterdir())


def image() -> torch.Tensor:
    """Make an image that is not square, without a generator that a later version might change."""
    n = torch.arange(3 * 48 * 72)
    return (n * n % 251).view(1, 3, 48, 72).byte()


def test_there_is_a_release() -> None:
    assert "0.1.0" in RELEASES


@pytest.mark.parametrize("release", RELEASES)
def test_a_network_of_an_old_release_gives_the_same_logits(release: str) -> None:
    trained = load_trained(FILES / release)
    expected = json.loads((FILES / release / "expected.json").read_text())
    with torch.no_grad():
        logits_kn = trained.model(image()).main_bkhw[0].flatten(1)
    assert list(trained.info.classes) == expected["classes"]
    assert trained.info.step == expected["step"]
    torch.testing.assert_close(
        logits_kn[:, ::97], torch.tensor(expected["logits"]), atol=1e-4, rtol=1e-3
    )


@pytest.mark.parametrize("release", RELEASES)
def test_a_training_of_an_old_release_resumes(release: str, tmp_path: Path) -> None:
    shutil.copytree(FILES / release, tmp_path / "run")
    recipe = read_recipe(tmp_path / "run" / "recipe.json")
    trained = load_trained(FILES / release)
    weights = run_weights(tmp_path / "run" / "last.pt")
    assert weights.keys() == trained.model.state_dict().keys()
    (tmp_path / "run" / "expected.json").unlink()
    result = run_training(recipe, tmp_path / "run", resume=True, device="cpu")
    assert result.step > trained.info.step
    assert result.finished


def test_the_torch_in_use_is_one_that_is_supported() -> None:
    project = tomllib.loads((FILES.parents[1] / "pyproject.toml").read_text())["project"]
    wanted = [Requirement(text) for text in project["dependencies"]]
    torch_range = next(one.specifier for one in wanted if one.name == "torch")
    assert torch_range.contains(torch.__version__.split("+")[0])
    assert "2.13" in str(torch_range), "docs/reliability.md names the oldest one"
