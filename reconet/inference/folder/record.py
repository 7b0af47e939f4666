"""What has been predicted, in a file beside it: predictions.jsonl.

Each line is one image: where it is, what was written for it, by which network and settings (a
hash, `run`), and what the image was like then. A run adds lines to its own journal, one when it
begins to write for an image (without `run`) and one when it is done; so a kill loses at most the
images under way, and no file is ever nobody's. At its end the journals become the record, in one
move. Files that the record does not know are not ours, and are never overwritten.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from reconet.errors import DataError
from reconet.inference.folder.names import files_of
from reconet.system.files import write_text

FORMAT = 1
RECORD = "predictions.jsonl"
JOURNALS = "predictions.*.part"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One image. Paths are relative to the output folder, so that both may move together."""

    source: str
    stem: str
    run: str = ""  # network and settings; empty while it is not done
    network: str = ""  # for people
    bytes: int = 0
    mtime_ns: int = 0
    outputs: dict[str, str] = field(default_factory=dict)  # labels, overlay, probabilities
    width: int = 0
    height: int = 0
    shares: dict[str, float] = field(default_factory=dict)
    note: str = ""

    def line(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}) + "\n"


Record = dict[str, Entry]  # by source


def read_record(out: Path) -> Record:
    record: Record = {}
    for path in [out / RECORD, *sorted(out.glob(JOURNALS))]:
        if path.is_file():
            for line in path.read_bytes().splitlines():
                if (entry := _entry(line, path)) is not None:
                    record[entry.source] = entry
    return record


def _entry(line: bytes, path: Path) -> Entry | None:
    try:
        values = json.loads(line)
    except ValueError:  # the last line of a process that was killed
        return None
    if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
        raise DataError(f"{path} was written by another version of reconet; choose another --out.")
    try:
        return Entry(**values)
    except TypeError as error:
        raise DataError(f"{path} is no record of predictions: {error}.") from error


def write_record(out: Path, record: Mapping[str, Entry], journals: Iterable[Path] = ()) -> None:
    """The record anew; then the journals that are in it may go."""
    write_text(out / RECORD, "".join(record[source].line() for source in sorted(record)))
    for path in journals:
        path.unlink(missing_ok=True)


def recorded_outputs(folder: Path) -> set[Path]:
    """All files below a folder that its record, if it has one, knows as ours."""
    if not (folder / RECORD).is_file() and not any(folder.glob(JOURNALS)):
        return set()
    return {
        folder / name for entry in read_record(folder).values() for name in files_of(entry.stem)
    }


class Journal:
    """Lines about what this process does, each written at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, entry: Entry) -> None:
        with open(self.path, "ab") as file:
            file.write(entry.line().encode())


def journal_path(out: Path, token: str, rank: int) -> Path:
    return out / f"predictions.{token}-{rank}.part"


def relative(path: Path, out: Path) -> str:
    """How a source is called in the record."""
    return Path(os.path.relpath(path, out)).as_posix()
