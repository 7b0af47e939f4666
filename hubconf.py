"""Entry points of torch.hub: `torch.hub.load(repository, "voc12")`."""

from typing import Any

dependencies = ["huggingface_hub", "numpy", "pydantic", "safetensors", "torch", "yaml"]


def voc12() -> Any:
    """Return the network of this package, trained on VOC 2012: image_bchw -> Logits."""
    from reconet.inference import find_network
    from reconet.models import find_weights, load_trained

    return load_trained(find_weights(find_network("voc12").path)).model.eval()


def head(name: str, **options: Any) -> Any:
    """Return a head for your own feature maps: see reconet.create_head."""
    import reconet

    return reconet.create_head(name, **options)
