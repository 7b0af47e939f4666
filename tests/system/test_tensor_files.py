"""Equal networks are equal files."""

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, load_file, save_file

from reconet.system.tensor_files import check_sum, tensor_bytes


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
        written = file.metadata()
    assert len(written.pop("checksum")) == 8
    assert written == metadata
    check_sum(path)


def test_no_bit_of_a_file_can_change_unnoticed(tmp_path: Path) -> None:
    tensors, path = {"b": torch.arange(5), "a": torch.zeros(3)}, tmp_path / "file.safetensors"
    whole = tensor_bytes(tensors, {"classes": '["checksum", "00000000"]', "a": "ä"})
    unnoticed = []
    for place in range(8 * len(whole)):
        data = bytearray(whole)
        data[place // 8] ^= 1 << place % 8
        path.write_bytes(data)
        try:
            check_sum(path)
            load_file(path)
        except (OSError, SafetensorError):
            continue
        unnoticed.append(place // 8)
    start = whole.index(b'"checksum":"')
    assert set(unnoticed) <= set(range(start + 1, start + 9)), "but in the name of the checksum"


def test_files_of_the_library_have_no_checksum_and_pass(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / "file.safetensors", {"format": "pt"})
    check_sum(tmp_path / "file.safetensors")


def test_a_file_may_have_no_metadata() -> None:
    assert torch.equal(load(tensor_bytes({"a": torch.ones(2)}, {}))["a"], torch.ones(2))
