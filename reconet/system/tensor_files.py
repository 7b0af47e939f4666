"""Serialise tensors: the same tensors and metadata always give the same bytes."""

import json
from collections.abc import Mapping

from safetensors.torch import save
from torch import Tensor

LENGTH_BYTES = 8  # of the number in front of the header
METADATA = "__metadata__"


def tensor_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """Return a safetensors file with sorted metadata, so that files compare by checksum.

    The library writes the metadata in another order each time.
    """
    data = save(dict(tensors), dict(metadata))
    end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")
    header = json.loads(data[LENGTH_BYTES:end])
    if metadata:
        header[METADATA] = dict(sorted(metadata.items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % LENGTH_BYTES)  # tensors start at a multiple of 8
    return len(text).to_bytes(LENGTH_BYTES, "little") + text + data[end:]
