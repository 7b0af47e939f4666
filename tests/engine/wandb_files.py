"""Read the offline records of wandb: a log of protocol buffers in blocks, as in LevelDB."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

HEADER, BLOCK = 7, 2**15
FULL, LAST = 1, 4


def read_messages(path: Path) -> Iterator[bytes]:
    """Yield the messages of a file. One that is longer than a block comes in several parts."""
    data, place, parts = path.read_bytes(), HEADER, b""
    while place + HEADER <= len(data):
        left = BLOCK - place % BLOCK
        if left < HEADER:  # the rest of a block that is too short for a header
            place += left
            continue
        length, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        parts += data[place + HEADER : place + HEADER + length]
        place += HEADER + length
        if kind in (FULL, LAST):
            yield parts
            parts = b""


def read_records(path: Path) -> list[Any]:
    """Read all records of a file."""
    from wandb.proto import wandb_internal_pb2

    records = []
    for message in read_messages(path):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(message)
        records.append(record)
    return records


def history(path: Path) -> dict[int, set[str]]:
    """Return the names of the values of each step."""
    rows: dict[int, set[str]] = {}
    for record in read_records(path):
        if record.WhichOneof("record_type") == "history":
            names = {item.key or "/".join(item.nested_key) for item in record.history.item}
            rows.setdefault(record.history.step.num, set()).update(names)
    return rows
