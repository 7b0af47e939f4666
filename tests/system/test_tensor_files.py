"""Equal networks are equal files."""

from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load

from reconet.system.tensor_files import tensor_bytes


def test_the_order_of_metadata_changes_no_byte(tmp_path: Path) -> None:
    tensors = {"b": torch.randn(3, 5), "a": torch.arange(7), "empty": torch.zeros(0, 2)}
    metadata = {f"key{n} ä": "x" * n for n in range(9)}
    first = tensor_bytes(tensors, metadata)
    for _ in range(5):
        assert tensor_bytes(tensors, dict(reversed(metadata.items()))) == first
    back = load(first)
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)
    assert back.keys() == tensors.keys()
    path = tmp_path / "file.safetensors"
    path.write_bytes(first)
    with safe_open(path, "pt") as file:
        assert file.metadata() == metadata


def test_a_file_may_have_no_metadata() -> None:
    assert torch.equal(load(tensor_bytes({"a": torch.ones(2)}, {}))["a"], torch.ones(2))
