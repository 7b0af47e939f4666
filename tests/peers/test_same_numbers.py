"""The same weights give the same numbers in torchvision, in timm and here."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import reconet
from reconet.zoo.convert import convert_file

torchvision = pytest.importorskip("torchvision")
timm = pytest.importorskip("timm")


def assert_near(found: Tensor, expected: Tensor, off: float = 2e-5) -> None:
    torch.testing.assert_close(found, expected, atol=off, rtol=off)


def lively(net: Any) -> Any:
    """Give the statistics of batch norm values that fresh ones do not have."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.uniform_(-0.1, 0.1)
            module.running_var.uniform_(0.5, 2)
            nn.init.uniform_(module.weight, 0.5, 1.5)
    return net.eval()


def ours(name: str, state: dict[str, Tensor], **options: Any) -> Any:
    model: Any = reconet.create_model(
        "fcn", num_classes=2, backbone=name, output_stride=32, **options
    ).eval()
    result = model.backbone.load_state_dict(state, strict=False)
    assert not [key for key in result.missing_keys if "num_batches" not in key]
    return model.backbone


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "resnet101"])
def test_a_resnet_gives_the_maps_of_torchvision_and_timm(name: str) -> None:
    torch.manual_seed(0)
    theirs = lively(getattr(torchvision.models, name)())
    net = ours(name, theirs.state_dict(), stem="plain")
    by_timm = timm.create_model(name, features_only=True, out_indices=(1, 2, 3, 4)).eval()
    by_timm.load_state_dict(theirs.state_dict(), strict=False)
    x_bchw = torch.randn(1, 3, 65, 97)
    with torch.no_grad():
        x = theirs.maxpool(theirs.relu(theirs.bn1(theirs.conv1(x_bchw))))
        for layer, mine, timms in zip(
            ("layer1", "layer2", "layer3", "layer4"), net(x_bchw), by_timm(x_bchw), strict=True
        ):
            x = getattr(theirs, layer)(x)
            assert_near(mine, x)
            assert_near(mine, timms)


@pytest.mark.parametrize("name", ["resnet50s.gluon_in1k"])
def test_a_deep_stem_gives_the_maps_of_timm(name: str) -> None:
    torch.manual_seed(0)
    theirs = lively(timm.create_model(name, features_only=True, out_indices=(1, 2, 3, 4)))
    net = ours("resnet50", theirs.state_dict(), stem="deep")
    x_bchw = torch.randn(1, 3, 65, 97)
    with torch.no_grad():
        for mine, timms in zip(net(x_bchw), theirs(x_bchw), strict=True):
            assert_near(mine, timms)


def test_mobilenet_gives_the_maps_of_torchvision() -> None:
    torch.manual_seed(0)
    theirs = lively(torchvision.models.mobilenet_v2())
    net = ours("mobilenet_v2", theirs.state_dict())
    x = x_bchw = torch.randn(1, 3, 65, 97)
    found = []
    with torch.no_grad():
        for layer in theirs.features:
            x = layer(x)
            found.append(x)
        for mine, layer in zip(net(x_bchw), (3, 6, 13, 18), strict=True):
            assert_near(mine, found[layer])


@pytest.mark.parametrize("name", ["fcn_resnet50", "deeplabv3_resnet50"])
def test_a_network_of_torchvision_keeps_its_logits(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make = getattr(torchvision.models.segmentation, name)
    theirs = lively(make(weights=None, weights_backbone=None, num_classes=21, aux_loss=True))
    path = tmp_path / "net.pth"
    torch.save(theirs.state_dict(), path)
    model = convert_file(path, "torchvision", dataset="voc12").network.model.eval()
    image_bchw = torch.rand(1, 3, 97, 129)
    with torch.no_grad():
        expected = theirs(model.normalise(image_bchw))["out"]
        assert_near(model(image_bchw).main_bkhw, expected, 1e-4)
