"""ResNet and MobileNetV2: published sizes and names, promised shapes, dilation, weights."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from reconet.errors import RecipeError
from reconet.models import (
    Backbone,
    MobileNetV2,
    ResNet,
    load_backbone,
)

# Without a classifier; plain stem. From torchvision's published totals less their fc layers.
PARAMETERS = {
    "resnet18": 11_689_512 - 513_000,
    "resnet34": 21_797_672 - 513_000,
    "resnet50": 25_557_032 - 2_049_000,
    "resnet101": 44_549_160 - 2_049_000,
    "resnet152": 60_192_808 - 2_049_000,
    "mobilenet_v2": 3_504_872 - 1_281_000,
}
# Of names and shapes of all tensors, with the deep stem. Files of networks have them.
TENSORS = {
    "resnet18": "e6329fdb08779a3a",
    "resnet34": "a7dda8edd71fda78",
    "resnet50": "e29d89d48329a5f2",
    "resnet101": "bb9ae744fa0c62bb",
    "resnet152": "2a6080a6192d9450",
}


def build(name: str, **options: Any) -> Backbone:
    if name == "mobilenet_v2":
        return MobileNetV2(**{key: value for key, value in options.items() if key != "stem"})
    return ResNet(name, **options)


@pytest.mark.parametrize("name", sorted(TENSORS))
def test_tensors_keep_their_names_order_and_shapes(name: str) -> None:
    with torch.device("meta"):
        state = ResNet(name).state_dict()
    text = "\n".join(f"{key} {tuple(value.shape)}" for key, value in state.items())
    assert sha256(text.encode()).hexdigest().startswith(TENSORS[name])


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_networks_have_the_published_number_of_parameters(name: str) -> None:
    with torch.device("meta"):
        net = build(name, stem="plain")
    assert sum(p.numel() for p in net.parameters()) == PARAMETERS[name]


def test_the_full_networks_have_the_published_channels() -> None:
    with torch.device("meta"):
        specs = ResNet("resnet101").stages((512, 512))
        assert MobileNetV2().channels == [24, 32, 96, 1280]
    assert [s.channels for s in specs] == [256, 512, 1024, 2048]
    assert [s.height for s in specs] == [128, 64, 64, 64]


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "mobilenet_v2"])
@pytest.mark.parametrize("stem", ["deep", "plain"])
@pytest.mark.parametrize("output_stride", [8, 16, 32])
@pytest.mark.parametrize("size", [(65, 97), (33, 57)])
def test_stages_promise_the_shapes_that_come(
    name: str, stem: str, output_stride: int, size: tuple[int, int]
) -> None:
    net = build(name, stem=stem, output_stride=output_stride, width=0.25).eval()
    for feature, spec in zip(net(torch.randn(1, 3, *size)), net.stages(size), strict=True):
        assert feature.shape[1:] == (spec.channels, spec.height, spec.width)
    two = net.first_stages(torch.zeros(1, 3, *size), 2)
    assert two.c2.shape[1] == net.channels[1]
    assert two.c4.numel() == 0


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
@pytest.mark.parametrize("output_stride", [8, 16])
def test_dilation_instead_of_stride_keeps_what_the_coarse_grid_sees(
    name: str, output_stride: int
) -> None:
    """Check that on the coarse grid a dilated stage computes the strided stage.

    Padding differs, so the comparison stays away from the border.
    """
    dense = build(name, output_stride=output_stride, width=0.25).eval()
    coarse = build(name, output_stride=32, width=0.25).eval()
    coarse.load_state_dict(dense.state_dict())
    x_bchw, step, inner = torch.randn(1, 3, 512, 512), 32 // output_stride, slice(6, 10)
    torch.testing.assert_close(
        dense(x_bchw).c4[..., ::step, ::step][..., inner, inner],
        coarse(x_bchw).c4[..., inner, inner],
        atol=1e-4,
        rtol=1e-4,
    )


def test_a_dilated_stage_dilates_its_first_block_by_half() -> None:
    net = ResNet("resnet50", width=0.125)
    dilations = [[block.conv2.dilation[0] for block in s] for s in (net.layer3, net.layer4)]  # type: ignore[union-attr, index]
    assert dilations == [[1, 2, 2, 2, 2, 2], [2, 4, 4]]


def test_stages_are_layers_for_the_layer_decay() -> None:
    depths = ResNet("resnet18", width=0.125).parameter_depths()
    assert depths["conv1.0.weight"] == depths["bn1.weight"] == 0
    assert [depths[f"layer{n}.0.conv1.weight"] for n in range(1, 5)] == [1, 2, 3, 4]
    depths = MobileNetV2(width=0.25).parameter_depths()
    first = {depth: name for name, depth in reversed(depths.items())}
    assert first[0] == "features.0.0.weight"
    assert [first[n].split(".")[1] for n in range(1, 5)] == ["1", "4", "7", "14"]


def test_the_stride_is_where_it_was_asked_for() -> None:
    def strides(net: ResNet) -> tuple[object, object]:
        block = net.layer2[0]
        return block.conv1.stride, block.conv2.stride

    assert strides(ResNet("resnet50", width=0.125)) == ((1, 1), (2, 2))
    assert strides(ResNet("resnet50", width=0.125, stride_on="1x1")) == ((2, 2), (1, 1))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet18", {"stride_on": "1x1"}, "resnet18 has no 1x1"),
        ("resnet50", {"width": 0.01}, r"width 0\.01 is too small"),
        ("mobilenet_v2", {"width": 0.01}, r"width 0\.01 is too small"),
        ("resnet51", {}, r"unknown backbone 'resnet51'\. Did you mean 'resnet5?"),
        ("resnet50", {"output_stride": 4}, "unknown output stride '4'"),
    ],
)
def test_what_cannot_be_built_says_why(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        build(name, **options)


def test_files_of_torchvision_load_with_their_classifier_left_out(tmp_path: Path) -> None:
    state = MobileNetV2().state_dict()
    classifier = {"classifier.1.weight": torch.zeros(1000, 1280)}
    save_file(state | classifier, tmp_path / "weights.safetensors")
    ours = MobileNetV2(output_stride=16)
    report = load_backbone(ours, str(tmp_path / "weights.safetensors"))
    assert report.ignored == ("classifier.1.weight",)
    assert all(torch.equal(value, state[name]) for name, value in ours.state_dict().items())


def test_the_weights_of_timm_are_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a file with timm's names of two blocks and the rest, each layer by its shape."""
    import huggingface_hub

    own = MobileNetV2().state_dict()
    prefixes = {"conv_stem": "features.0.0", "bn1": "features.0.1"}
    prefixes |= {"conv_head": "features.18.0", "bn2": "features.18.1"}
    number = 0
    for group, count in enumerate((1, 2, 3, 4, 3, 3, 1)):
        for block in range(count):
            number += 1
            layers = ["conv_dw", "bn1", "conv_pw", "bn2"]
            places = ["0.0", "0.1", "1", "2"]
            if group:
                layers = ["conv_pw", "bn1", "conv_dw", "bn2", "conv_pwl", "bn3"]
                places = ["0.0", "0.1", "1.0", "1.1", "2", "3"]
            for layer, place in zip(layers, places, strict=True):
                prefixes[f"blocks.{group}.{block}.{layer}"] = f"features.{number}.conv.{place}"
    theirs = {
        f"{public}.{key.rpartition('.')[2]}": value
        for public, ours in prefixes.items()
        for key, value in own.items()
        if key.rpartition(".")[0] == ours
    }
    assert len(theirs) == len(own)
    save_file(theirs, tmp_path / "model.safetensors")
    path = str(tmp_path / "model.safetensors")
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda *_, **__: path)
    net = MobileNetV2()
    load_backbone(net, "imagenet")
    assert all(torch.equal(value, own[name]) for name, value in net.state_dict().items())
