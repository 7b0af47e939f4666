"""Name a cache by what is in it: the same inputs find the same cache, others never do."""

import json
from collections.abc import Mapping
from hashlib import blake2b

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from reconet.models.segmenter import Segmenter

DIGEST_BYTES = 10


def digest_of(facts: object) -> str:
    """Hash anything that JSON can hold."""
    text = json.dumps(facts, sort_keys=True)
    return blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


def digest_of_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Hash names, types, shapes and values."""
    state = blake2b(digest_size=DIGEST_BYTES)
    for name, tensor in sorted(tensors.items()):
        state.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        state.update(tensor.detach().cpu().contiguous().reshape(-1).numpy().data)
    return state.hexdigest()


def facts_of_trunk(model: Segmenter, *, project: bool) -> dict[str, object]:
    """Describe the frozen part of a network: weights, layers, and what these do not tell.

    Strides and dilations are no weights: the layers tell them. `project` adds the projection.
    """
    state = model.state_dict()
    parts = {"backbone", "mean_c11", "std_c11"} | ({"project"} if project else set())
    tensors = {name: value for name, value in state.items() if name.partition(".")[0] in parts}
    return {
        "weights": digest_of_tensors(tensors),
        "layers": digest_of([_describe(*named) for named in model.backbone.named_modules()]),
        "more": dict(model.backbone.cache_facts()),
    }


def _describe(name: str, layer: nn.Module) -> tuple[str, str, str]:
    """Return name, kind and settings of a layer. Many processes have another kind of batch norm."""
    kind = "" if isinstance(layer, _BatchNorm) else type(layer).__name__
    return name, kind, layer.extra_repr()
