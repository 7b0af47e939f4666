"""Our heads on the backbones of others: timm, smp, torchvision and transformers."""

import re
from pathlib import Path

import pytest
import torch

import reconet

timm = pytest.importorskip("timm")
smp = pytest.importorskip("segmentation_models_pytorch")
torchvision = pytest.importorskip("torchvision")
pytest.importorskip("torchvision.models.feature_extraction")
transformers = pytest.importorskip("transformers")
PAGE = (Path(__file__).parents[2] / "docs" / "heads.md").read_text()
EXAMPLES = re.findall(r"```python\n(import .*?|from .*?)```", PAGE, re.DOTALL)
# The hubs cannot be reached here, so the examples run with random weights.
OFFLINE = {
    "pretrained=True": "pretrained=False",
    'weights="imagenet"': "weights=None",
    'AutoBackbone.from_pretrained("facebook/dinov2-small", out_indices=[12])': (
        'AutoBackbone.from_config(__import__("transformers").Dinov2Config('
        "hidden_size=384, num_attention_heads=6, patch_size=14, out_indices=[12]))"
    ),
}


@pytest.mark.parametrize("number", range(5))
def test_an_example_of_the_page_runs(number: int) -> None:
    assert len(EXAMPLES) == 5
    code = EXAMPLES[number]
    assert len(code.splitlines()) <= 25
    for online, offline in OFFLINE.items():
        code = code.replace(online, offline)
    names: dict[str, object] = {}
    exec(code, names)
    found = names.get("logits", names.get("y", names.get("loss")))
    found = getattr(found, "main_bkhw", found)
    assert isinstance(found, torch.Tensor)
    assert found.isfinite().all()


def maps_of(backbone: str) -> tuple[list[torch.Tensor], tuple[int, ...], tuple[int, ...]]:
    image = torch.rand(2, 3, 64, 96, generator=torch.Generator().manual_seed(0))
    if backbone.startswith("timm:"):
        net = timm.create_model(backbone[5:], features_only=True)
        info = net.feature_info
        return net(image), tuple(info.channels()), tuple(info.reduction())
    if backbone.startswith("smp:"):
        net = smp.encoders.get_encoder(backbone[4:], weights=None)
        return net(image), tuple(net.out_channels), tuple(2**i for i in range(6))
    if backbone == "torchvision":
        make = torchvision.models.feature_extraction.create_feature_extractor

        nodes = {f"layer{i}": str(i) for i in range(1, 5)}
        net = make(torchvision.models.resnet18(), nodes)
        return list(net(image).values()), (64, 128, 256, 512), (4, 8, 16, 32)
    config = transformers.ConvNextConfig(
        hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], out_indices=[1, 2, 3, 4]
    )
    net = transformers.AutoBackbone.from_config(config)
    return list(net(image).feature_maps), (8, 16, 24, 32), (4, 8, 16, 32)


@pytest.mark.parametrize("backbone", ["timm:resnet18", "smp:resnet18", "torchvision", "hf"])
@pytest.mark.parametrize("name", reconet.list_contexts())
def test_a_head_learns_on_the_maps_of_others_and_is_exported(name: str, backbone: str) -> None:
    torch.manual_seed(0)
    maps, channels, strides = maps_of(backbone)
    maps = [x_bchw.detach() for x_bchw in maps]
    head = reconet.create_head(
        name, channels=channels, strides=strides, num_classes=5, crop=(64, 96)
    )
    optimizer = torch.optim.SGD(head.parameters(), lr=0.02, momentum=0.9)
    label_bhw = torch.zeros(2, 64, 96, dtype=torch.long)
    label_bhw[:, :, 48:] = 3
    losses = []
    for _ in range(8):
        logits = head(maps, size=(64, 96))
        loss = head.loss(logits, label_bhw)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        head.after_step()
        losses.append(loss.item())
    assert logits.main_bkhw.shape == (2, 5, 64, 96)
    starved = [key for key, p in head.named_parameters() if p.requires_grad and p.grad is None]
    assert not starved
    assert losses[-1] < losses[0]
    head.eval()
    program = torch.export.export(head, (maps, (64, 96)))
    with torch.no_grad():
        torch.testing.assert_close(
            program.module()(maps, (64, 96)).main_bkhw, head(maps, (64, 96)).main_bkhw
        )
