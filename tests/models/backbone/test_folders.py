"""A folder that transformers wrote: trained frozen, scored, exported, shared, and loaded again."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reconet.cli import main
from reconet.engine import run_training
from reconet.evaluation import evaluate
from reconet.export.share import write_shared_folder
from reconet.models import load_trained
from reconet.models.backbone.families import KNOWN
from reconet.system.user_cache import ROOT_VARIABLE
from tests.data.trees import FOLDER_CLASSES
from tests.export.helpers import random_image
from tests.factories import tiny_network, tiny_recipe, write_run
from tests.models.backbone.tiny import config_of, write_folder

pytest.importorskip("transformers")
FROZEN = (
    *("model.weights=pretrained", "model.frozen=true", "model.aux=false", "loss.stride=4"),
    *("data.options.train=4", "data.options.val=2", "data.views=1", "data.workers=0"),
    *("train.steps=2", "train.eval_every=2", "train.batch=2", "model.context=fcn"),
)
FROZEN_FOLDER = (
    *(setting for setting in FROZEN if not setting.startswith("data.options")),
    *("data.crop=64", "data.base_size=64"),
    f"data.options.classes={json.dumps(FOLDER_CLASSES)}",
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path / "cache"))


@pytest.mark.parametrize("family", ["dinov2", pytest.param("convnext", marks=pytest.mark.slow)])
def test_a_folder_trains_from_cached_features_and_is_needed_no_more(
    tmp_path: Path, family: str
) -> None:
    folder = write_folder(tmp_path / "somewhere" / "small", family)
    recipe = tiny_recipe(f"model.backbone=hf:{folder}", *FROZEN)
    run_training(recipe, tmp_path / "run", device="cpu")
    shutil.rmtree(tmp_path / "somewhere")
    trained = load_trained(tmp_path / "run")
    assert trained.info.recipe.model.backbone_config["model_type"] == family
    assert list((tmp_path / "cache" / "features").iterdir())
    scored = evaluate(tmp_path / "run")
    assert scored is not None
    assert scored.figures["miou"] == pytest.approx(trained.info.score["miou"])
    shared = write_shared_folder(tmp_path / "run", tmp_path / "shared")
    card = (shared / "README.md").read_text()
    assert "Backbone (small, pretrained weights): licence not known" in card
    assert "somewhere" not in card + (shared / "recipe.json").read_text()
    for key, value in load_trained(shared).model.state_dict().items():
        assert value.equal(trained.model.state_dict()[key])


def hub_run(directory: Path, family: str, name: str, *settings: str) -> Path:
    """Write the run of a network on a small backbone that is said to be a public one."""
    config = json.dumps(config_of(family))
    backbone = (f"model.backbone=hf:{name}", f"model.backbone_config={config}")
    recipe = tiny_recipe(*backbone, "model.weights=pretrained", "model.aux=false", *settings)
    return write_run(directory, tiny_network(recipe, decided=True))


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("convnextv2", "facebook/convnextv2-tiny-1k-224"),
        ("dinov3_vit", "facebook/dinov3-vits16-pretrain-lvd1689m"),
    ],
)
def test_the_card_names_the_licence_of_public_weights(
    tmp_path: Path, family: str, name: str
) -> None:
    run = hub_run(tmp_path / "run", family, name, "model.context=fcn")
    card = (write_shared_folder(run, tmp_path / "shared") / "README.md").read_text()
    assert f"Backbone ({name}, pretrained weights): {KNOWN[name].licence}." in card


@pytest.mark.slow
@pytest.mark.parametrize("family", ["convnext", "dinov2", "swin"])
def test_verbs_take_a_network_on_such_a_backbone(
    tmp_path: Path, family: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = hub_run(tmp_path / "run", family, f"tiny/{family}")
    image_hwc = random_image(3, 50, 70).permute(1, 2, 0).numpy()
    Image.fromarray(image_hwc).save(tmp_path / "a.png")
    image = str(tmp_path / "a.png")
    out = str(tmp_path / "out")
    assert main(["predict", str(run), image, "--out", out, "--device=cpu", "--precision=fp32"]) == 0
    assert main(["explain", str(run), image, "--device=cpu"]) == 0
    capsys.readouterr()
    way = ["--way", "bf16", "--rounds", "1", "--size", "64", "--json"]
    assert main(["bench", "model", str(run), *way]) == 0
    assert json.loads(capsys.readouterr().out)
    label_hw = np.asarray(Image.open(next(Path(out).rglob("a.png"))))
    assert label_hw.shape == (50, 70)
    assert len(np.unique(label_hw)) > 1
