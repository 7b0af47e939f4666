"""The table of public networks says what it should, and nothing twice."""

import re
from typing import Any

import pytest
import torch

from reconet.data import DATASETS
from reconet.models import CONTEXTS, create_model
from reconet.zoo import CATALOGUE, find_public, search_public
from reconet.zoo.heads import TOOLKITS

NETWORKS = list(CATALOGUE.values())


def test_every_row_is_complete_and_known_here() -> None:
    assert len(NETWORKS) > 150
    for one in NETWORKS:
        assert one.context in CONTEXTS
        assert one.dataset in DATASETS
        assert re.fullmatch(r"[0-9a-f]{8}", one.sha256)
        assert 0.3 < one.miou < 0.9
        assert one.address.startswith("https://")
        assert one.address.endswith(f"{one.sha256}.pth")
    assert len({one.sha256 for one in NETWORKS}) == len({one.address for one in NETWORKS})
    assert len({one.address for one in NETWORKS}) == len(NETWORKS)


def test_every_method_that_can_be_converted_is_listed() -> None:
    listed = {(one.source, one.context) for one in NETWORKS}
    assert listed == {(s.title, head.context) for s in TOOLKITS.values() for head in s.heads}


def test_a_row_tells_what_its_file_name_tells() -> None:
    one = find_public("pspnet_r101-d8_480x480_80k_pascal_context_59")
    assert (one.context, one.backbone, one.dataset) == ("pspnet", "resnet101", "pcontext59")
    assert (one.crop, one.steps, one.miou) == ((480, 480), 80_000, 0.5247)
    assert one.address == (
        "https://download.openmmlab.com/mmsegmentation/v0.5/pspnet/"
        "pspnet_r101-d8_480x480_80k_pascal_context_59/"
        "pspnet_r101-d8_480x480_80k_pascal_context_59_20210416_114418-fa6caaa2.pth"
    )
    assert "/nonlocal_net/nonlocal_r50" in search_public(["nonlocal", "r50"])[0].address
    assert find_public("ann_r50-d8_512x512_40k_voc12aug").context == "asymmetric"
    assert find_public("fcn_r101-d8_fp16_512x1024_80k_cityscapes").dataset == "cityscapes"


def test_words_narrow_the_list() -> None:
    found = search_public(["PSPNet", "ade20k"])
    assert [one.name for one in found] == [
        f"pspnet_{depth}-d8_512x512_{steps}k_ade20k"
        for steps in (80, 160)
        for depth in ("r50", "r101")
    ]
    assert {one.source for one in search_public(["torchvision"])} == {"torchvision"}
    assert search_public(["nothing like this"]) == []


def public_options(context: str) -> dict[str, Any]:
    options: dict[str, dict[str, Any]] = {
        "fcn": {"convs": 2, "concat": True},
        "deeplabv3": {"channels": 512, "project_3x3": True},
        "deeplabv3plus": {
            "channels": 512,
            "low_channels": 48,
            "project_3x3": True,
            "separable": True,
        },
        "psanet": {"mask": [97, 97]},
        "nonlocal": {"norm": True, "concat": True},
        "emanet": {"concat": True},
    }
    return options.get(context, {})


@pytest.mark.parametrize("name", ["r50", "r101"])
def test_sizes_are_those_of_the_networks(name: str) -> None:
    rows = {one.context: one for one in search_public(["mmsegmentation", name, "cityscapes"])}
    assert len(rows) == 13
    for context, one in rows.items():
        with torch.device("meta"):
            model = create_model(
                context,
                num_classes=19,
                backbone=one.backbone,
                stem="deep32",
                **public_options(context),
            )
        size = sum(value.nbytes for value in model.state_dict().values()) / 1e6
        assert abs(size - one.megabytes) <= 2, f"{context} on {one.backbone}: {size:.0f}"
