"""Name a cache by what is in it: the same inputs find the same cache, others never do."""

import json
from collections.abc import Mapping
from hashlib import blake2b

from torch import Tensor, nn

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


def digest_of_trunk(backbone: nn.Module, project: nn.Module | None) -> str:
    """Hash the frozen part of a network: backbone, and projection if there is one."""
    tensors = {f"backbone.{name}": value for name, value in backbone.state_dict().items()}
    if project is not None:
        tensors |= {f"project.{name}": value for name, value in project.state_dict().items()}
    return digest_of_tensors(tensors)
