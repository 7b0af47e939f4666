"""Backbones of transformers: weights, configurations, and what is refused."""

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from reconet.cli import main
from reconet.errors import CheckpointError, MissingExtraError, RecipeError
from reconet.models import BACKBONES, ResNet, create_model, load_trained, save_trained, weights
from reconet.models.backbone import check_backbone_name, complete_model, hf
from reconet.models.backbone.families import KNOWN
from reconet.models.backbone.hf import HubBackbone
from reconet.recipes import Model, dump_recipe, without_paths
from tests.factories import tiny_network, tiny_recipe
from tests.models.backbone.tiny import CONFIGS, config_of, hub_model, write_folder


def hub_recipe_settings(family: str, *, name: str = "tiny/x") -> list[str]:
    config = json.dumps(config_of(family))
    return [f"model.backbone=hf:{name}", f"model.backbone_config={config}", "model.context=fcn"]


def test_without_the_package_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf, "find_spec", lambda name: None)
    with pytest.raises(
        MissingExtraError, match=r"'facebook/dinov2-small' needs an extra.*backbones"
    ):
        check_backbone_name(Model(backbone="hf:facebook/dinov2-small"))


def test_a_wrong_name_says_what_to_write() -> None:
    with pytest.raises(RecipeError, match="Did you mean 'hf:facebook/dinov2-small'"):
        check_backbone_name(Model(backbone="facebook/dinov2-small"))
    pytest.importorskip("transformers")
    for name in ("hf:", "hf:dinov2", "hf:a/b/c", "hf:a b/c"):
        with pytest.raises(RecipeError, match="after hf: stands a hub id"):
            check_backbone_name(Model(backbone=name))


class TestWithTransformers:
    """What needs the package."""

    pytestmark = pytest.mark.skipif(find_spec("transformers") is None, reason="needs transformers")

    @pytest.mark.parametrize(
        ("family", "kind"),
        [("convnext", "AutoModelForImageClassification"), ("dinov2", "AutoModel")],
    )
    def test_a_folder_gives_its_weights_and_its_normalisation(
        self, tmp_path: Path, family: str, kind: str
    ) -> None:
        folder = write_folder(tmp_path / "x", family, kind)
        (folder / "preprocessor_config.json").write_text(
            json.dumps({"image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.5, 0.5]})
        )
        one, two = (
            create_model("fcn", num_classes=3, backbone=f"hf:{folder}", weights="pretrained")
            for _ in range(2)
        )
        assert one.mean_c11.flatten().tolist() == pytest.approx([0.5, 0.4, 0.3])
        for key, value in one.backbone.state_dict().items():
            assert torch.equal(value, two.backbone.state_dict()[key]), key
        fresh = create_model("fcn", num_classes=3, backbone=f"hf:{folder}")
        first = next(
            key
            for key in one.backbone.state_dict()
            if key.endswith(("projection.weight", "dwconv.weight"))
        )
        assert not torch.equal(one.backbone.state_dict()[first], fresh.backbone.state_dict()[first])

    def test_a_resnet_of_transformers_gives_our_features(self) -> None:
        torch.manual_seed(0)
        ours = ResNet("resnet50", stem="plain", width=0.125, output_stride=32).eval()
        for _name, value in ours.named_buffers():
            if value.is_floating_point():
                value.uniform_(0.5, 1.5)
        sizes: dict[str, Any] = {
            "embedding_size": 8,
            "hidden_sizes": [32, 64, 128, 256],
            "depths": [3, 4, 6, 3],
        }
        config = {"model_type": "resnet", **sizes}
        theirs = HubBackbone(Model(backbone="hf:a/b", backbone_config=config)).eval()
        theirs.net.load_state_dict(renamed(ours.state_dict()))
        image_bchw = torch.rand(1, 3, 64, 96)
        with torch.no_grad():
            for own, other in zip(ours(image_bchw), theirs(image_bchw), strict=True):
                torch.testing.assert_close(own, other, atol=1e-5, rtol=1e-5)

    def test_a_family_without_a_stem_gives_its_four_stages(self) -> None:
        sizes: dict[str, Any] = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
        config = {"model_type": "pvt_v2", "num_attention_heads": [1, 2, 4, 4], **sizes}
        net = HubBackbone(Model(backbone="hf:a/b", backbone_config=config)).eval()
        assert (net.channels, net.strides) == ([8, 16, 24, 32], [4, 8, 16, 32])
        for x_bchw, spec in zip(net(torch.rand(1, 3, 65, 97)), net.stages((65, 97)), strict=True):
            assert x_bchw.shape == (1, spec.channels, spec.height, spec.width)

    def test_a_network_file_needs_neither_folder_nor_hub(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "secret" / "small", "dinov2")
        recipe = tiny_recipe(f"model.backbone=hf:{folder}", "model.context=fcn")
        recipe = recipe.model_copy(update={"model": complete_model(recipe.model)})
        trained = tiny_network(recipe)
        save_trained(tmp_path / "net.safetensors", trained)
        for file in folder.iterdir():
            file.unlink()
        again = load_trained(tmp_path / "net.safetensors")
        image_bchw = torch.rand(1, 3, 50, 70)
        assert torch.equal(again.model(image_bchw).main_bkhw, trained.model(image_bchw).main_bkhw)
        assert "secret" not in dump_recipe(without_paths(recipe))

    def test_a_file_that_does_not_carry_its_backbone_is_refused(self, tmp_path: Path) -> None:
        trained = tiny_network(tiny_recipe(*hub_recipe_settings("dinov2")))
        model = trained.info.recipe.model.model_copy(update={"backbone_config": {}})
        recipe = trained.info.recipe.model_copy(update={"model": model})
        changed = replace(trained, info=replace(trained.info, recipe=recipe))
        save_trained(tmp_path / "net.safetensors", changed)
        with pytest.raises(
            CheckpointError, match=r"does not say what its backbone tiny/x is built"
        ):
            load_trained(tmp_path / "net.safetensors")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"model_type": "gpt2"}, "unknown family of backbone"),
            ({"model_type": "timm_backbone"}, "unknown family of backbone"),
            ({"num_hidden_layers": 30_000}, "too many layers"),
            ({"num_hidden_layers": 3}, "fewer than four stages"),
            ({"hidden_size": "many"}, "cannot be used"),
            ({"num_attention_heads": 0}, "cannot be a backbone"),
            ({"patch_size": 0}, "cannot be a backbone"),
        ],
    )
    def test_a_strange_configuration_is_one_line(
        self, change: dict[str, object], message: str
    ) -> None:
        config = {**config_of("dinov2"), **change}
        with pytest.raises((RecipeError, CheckpointError), match=message) as raised:
            create_model("fcn", num_classes=3, backbone="hf:a/b", backbone_config=config)
        assert "\n" not in str(raised.value)

    @pytest.mark.parametrize(
        "config",
        ['{"depths":[[[1]]]}', '{"A b":1}', '{"hidden_size":100000000}', '{"a":{"b":1}}'],
    )
    def test_a_recipe_takes_only_plain_bounded_configurations(self, config: str) -> None:
        with pytest.raises(RecipeError):
            tiny_recipe("model.backbone=hf:a/b", f"model.backbone_config={config}")

    def test_weights_of_another_network_are_refused(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "x", "dinov2")
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 32}))
        with pytest.raises(CheckpointError) as raised:
            create_model("fcn", num_classes=3, backbone=f"hf:{folder}", weights="pretrained")
        assert "\n" not in str(raised.value)
        (folder / "model.safetensors").write_bytes(b"no weights")
        with pytest.raises(CheckpointError, match="cannot read the weights"):
            create_model("fcn", num_classes=3, backbone=f"hf:{folder}", weights="pretrained")
        (folder / "model.safetensors").unlink()
        with pytest.raises(CheckpointError, match="no weights in"):
            create_model("fcn", num_classes=3, backbone=f"hf:{folder}", weights="pretrained")

    def test_a_folder_without_a_configuration_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(CheckpointError, match=r"there is no folder with a config\.json"):
            complete_model(Model(backbone=f"hf:{tmp_path}"))
        (tmp_path / "config.json").write_text("[")
        with pytest.raises(CheckpointError, match="cannot read"):
            complete_model(Model(backbone=f"hf:{tmp_path}"))

    def test_weights_that_cannot_be_had_are_named_before_a_network_is_built(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # To build it takes seconds.
        def build(settings: Model) -> HubBackbone:
            raise AssertionError("it was built")

        monkeypatch.setattr(weights, "hub_answers", lambda: False)
        for name in ("hf:facebook/dinov2-small", "resnet50"):
            monkeypatch.setitem(BACKBONES, name.partition(":")[0], build)
            with pytest.raises(CheckpointError, match=r"cannot get '.*' from the hub") as raised:
                create_model("fcn", num_classes=3, backbone=name, weights="imagenet")
            assert "\n" not in str(raised.value)
            with pytest.raises(CheckpointError, match=r"no weight file \./nowhere"):
                create_model("fcn", num_classes=3, backbone=name, weights="./nowhere")

    def test_another_backbone_forgets_the_configuration(self) -> None:
        recipe = tiny_recipe(*hub_recipe_settings("dinov2"), "model.backbone=resnet18")
        assert recipe.model.backbone_config == {}

    def test_known_ids_are_built_without_the_hub(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert {known.family for known in KNOWN.values()} == CONFIGS.keys()
        assert main(["cost", "voc12/frozen_dinov2_s", "--json"]) == 0
        total = json.loads(capsys.readouterr().out)
        assert "22" in str(total)  # million parameters of DINOv2-S

    def test_cached_features_know_the_configuration(self) -> None:
        one, two = hub_model("convnext", output_stride=8), hub_model("convnext", output_stride=16)
        assert one.backbone.cache_facts() != two.backbone.cache_facts()


def renamed(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Give the parameters of our ResNet the names of transformers."""
    renamed: dict[str, Tensor] = {}
    for key, value in state.items():
        stage, *rest = key.split(".")
        if stage in {"conv1", "bn1"}:
            part = "convolution" if stage == "conv1" else "normalization"
            renamed[f"embedder.embedder.{part}.{rest[-1]}"] = value
            continue
        block, part, last = rest[0], rest[1], rest[-1]
        place = f"encoder.stages.{int(stage[-1]) - 1}.layers.{block}"
        if part == "downsample":
            kind = "convolution" if rest[2] == "0" else "normalization"
            renamed[f"{place}.shortcut.{kind}.{last}"] = value
        else:
            kind = "convolution" if part.startswith("conv") else "normalization"
            renamed[f"{place}.layer.{int(part[-1]) - 1}.{kind}.{last}"] = value
    return renamed
