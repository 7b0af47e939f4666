"""Small random backbones of every family, and folders as transformers writes them."""

from pathlib import Path
from typing import Any

from reconet.models import Segmenter, create_model

CONVNEXT = {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 32, 64]}
SWIN = {
    "embed_dim": 8,
    "depths": [2, 2, 2, 2],
    "num_heads": [1, 2, 2, 4],
    "window_size": 4,
    "image_size": 64,
}
VIT = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 2}
CONFIGS: dict[str, dict[str, Any]] = {
    "convnext": CONVNEXT,
    "convnextv2": CONVNEXT,
    "dinov2": {**VIT, "image_size": 28, "patch_size": 14},
    "dinov2_with_registers": {**VIT, "image_size": 28, "patch_size": 14, "num_register_tokens": 2},
    "dinov3_convnext": CONVNEXT,
    "dinov3_vit": {**VIT, "intermediate_size": 96, "num_register_tokens": 2},
    "swin": SWIN,
    "swinv2": SWIN,
}
PLAIN = {"dinov2", "dinov2_with_registers", "dinov3_vit"}  # all maps have one stride


def config_of(family: str) -> dict[str, Any]:
    return {"model_type": family, **CONFIGS[family]}


def hub_model(family: str, context: str = "fcn", **options: Any) -> Segmenter:
    """Build a network on a small random backbone."""
    chosen: dict[str, Any] = {"num_classes": 3, "crop": (64, 96), **options}
    return create_model(
        context, backbone=f"hf:tiny/{family}", backbone_config=config_of(family), **chosen
    )


def write_folder(folder: Path, family: str, kind: str = "AutoModel") -> Path:
    """Write a folder as save_pretrained does, of a whole network as those on the hub are."""
    import transformers
    from transformers.models.auto import CONFIG_MAPPING

    config = CONFIG_MAPPING[family](**CONFIGS[family])
    getattr(transformers, kind).from_config(config).save_pretrained(folder)
    return folder
