"""Serialise tensors: the same tensors and metadata always give the same bytes.

The metadata holds a checksum of the whole file, taken with zeros in its own place. The library has
none: a disk could change weights, and nobody would notice.
"""

import errno
import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from reconet.system.reading import MEBIBYTE, WEIGHTS_BYTES, open_file

LENGTH_BYTES = 8  # of the number in front of the header
LARGEST_HEADER = 100 * 10**6  # that the library reads
METADATA, CHECKSUM = "__metadata__", "checksum"
ZEROS = "0" * 8
CHECKSUM_TEXT = re.compile(rb'"checksum":"([^"]{8})"')  # quotes inside other texts are escaped


def tensor_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """Return a safetensors file with sorted metadata, so that files compare by checksum.

    The library writes the metadata in another order each time.
    """
    return with_metadata(save(dict(tensors)), metadata)


def with_metadata(data: bytes, metadata: Mapping[str, str]) -> bytes:
    """Return the bytes of a safetensors file with other metadata."""
    end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")
    tensors = {k: v for k, v in json.loads(data[LENGTH_BYTES:end]).items() if k != METADATA}
    texts = {key: text for key, text in sorted(metadata.items()) if key != CHECKSUM}
    header = {METADATA: {CHECKSUM: ZEROS, **texts}, **tensors}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % LENGTH_BYTES)  # tensors start at a multiple of 8
    start = len(text).to_bytes(LENGTH_BYTES, "little") + text
    checksum = _as_text(zlib.crc32(memoryview(data)[end:], zlib.crc32(start)))
    return start.replace(ZEROS.encode(), checksum, 1) + data[end:]


def check_sum(path: Path) -> None:
    """Raise an OSError if a file is not as `tensor_bytes` wrote it.

    Files of others have no checksum, nor do those of version 0.1.0. They pass.
    """
    with open_file(path, limit=WEIGHTS_BYTES) as file:
        length = file.read(LENGTH_BYTES)
        start = length + file.read(min(int.from_bytes(length, "little"), LARGEST_HEADER))
        found = CHECKSUM_TEXT.search(start)
        if found is None:
            return
        first, last = found.span(1)
        checksum = zlib.crc32(start[:first] + ZEROS.encode() + start[last:])
        while block := file.read(MEBIBYTE):
            checksum = zlib.crc32(block, checksum)
    if found[1] != _as_text(checksum):
        reason = (
            "it is damaged, or another program has changed it: its checksum does not fit; take a "
            "copy of it, or train again"
        )
        raise OSError(errno.EIO, reason, str(path))


def _as_text(checksum: int) -> bytes:
    return f"{checksum:08x}".encode()
