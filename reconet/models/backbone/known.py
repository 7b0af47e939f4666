"""Configurations of some public backbones, so that they can be built and counted without the hub.

Weights still come from the hub. They are refused if they do not fit. The licences are those of the
hub pages, as far as known. Pages change: read them before you share a network.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

Value = int | float | str | bool | list[int]
APACHE = "Apache-2.0"
DINOV3 = "DINOv3 License"
CC_BY_NC = "CC-BY-NC-4.0"  # as the authors of ConvNeXt V2 state for their weights


@dataclass(frozen=True, kw_only=True)
class Known:
    """A public backbone: its family, what differs from the family's defaults, and its licence."""

    family: str
    licence: str = APACHE
    config: Mapping[str, Value] = field(default_factory=dict)


def _convnext(depth: int, width: int) -> dict[str, Value]:
    return {"depths": [3, 3, depth, 3], "hidden_sizes": [width * 2**i for i in range(4)]}


def _swin(depth: int, width: int, window: int, side: int) -> dict[str, Value]:
    return {
        "embed_dim": width,
        "depths": [2, 2, depth, 2],
        "num_heads": [width // 32 * 2**i for i in range(4)],
        "window_size": window,
        "image_size": side,
    }


def _vit(layers: int, width: int, **others: Value) -> dict[str, Value]:
    sizes = {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": width // 64,
    }
    return {**sizes, **others}


def _dinov2(layers: int, width: int) -> dict[str, Value]:
    return _vit(layers, width, image_size=518, patch_size=14)


def _dinov3(layers: int, width: int) -> dict[str, Value]:
    return _vit(layers, width, intermediate_size=4 * width, num_register_tokens=4)


KNOWN: dict[str, Known] = {
    "facebook/convnext-tiny-224": Known(family="convnext", config=_convnext(9, 96)),
    "facebook/convnext-small-224": Known(family="convnext", config=_convnext(27, 96)),
    "facebook/convnext-base-224": Known(family="convnext", config=_convnext(27, 128)),
    "facebook/convnextv2-tiny-1k-224": Known(
        family="convnextv2", licence=CC_BY_NC, config=_convnext(9, 96)
    ),
    "facebook/convnextv2-base-1k-224": Known(
        family="convnextv2", licence=CC_BY_NC, config=_convnext(27, 128)
    ),
    "microsoft/swin-tiny-patch4-window7-224": Known(family="swin", config=_swin(6, 96, 7, 224)),
    "microsoft/swin-base-patch4-window7-224": Known(family="swin", config=_swin(18, 128, 7, 224)),
    "microsoft/swinv2-tiny-patch4-window8-256": Known(family="swinv2", config=_swin(6, 96, 8, 256)),
    "facebook/dinov2-small": Known(family="dinov2", config=_dinov2(12, 384)),
    "facebook/dinov2-base": Known(family="dinov2", config=_dinov2(12, 768)),
    "facebook/dinov2-large": Known(family="dinov2", config=_dinov2(24, 1024)),
    "facebook/dinov2-with-registers-small": Known(
        family="dinov2_with_registers", config=_dinov2(12, 384)
    ),
    "facebook/dinov2-with-registers-base": Known(
        family="dinov2_with_registers", config=_dinov2(12, 768)
    ),
    "facebook/dinov3-vits16-pretrain-lvd1689m": Known(
        family="dinov3_vit", licence=DINOV3, config=_dinov3(12, 384)
    ),
    "facebook/dinov3-vitb16-pretrain-lvd1689m": Known(
        family="dinov3_vit", licence=DINOV3, config=_dinov3(12, 768)
    ),
    "facebook/dinov3-convnext-tiny-pretrain-lvd1689m": Known(
        family="dinov3_convnext", licence=DINOV3, config=_convnext(9, 96)
    ),
}
