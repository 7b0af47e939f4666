"""Record which images are done, in the file predictions.jsonl of the output folder.

Each line is one image: where it is, what was written for it, by which network and settings (a
hash, `run`), and the size and time of the image. While a run lasts, each process adds lines to a
journal of its own: one when it begins to write for an image (without `run`) and one when it is
done. So a kill loses at most the images under way, and every file that was written is on record.
At the end the journals become the record, in one move. Files that are not on record are not ours,
and are never overwritten.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from reconet.errors import DataError
from reconet.inference.folder.output_names import possible_files
from reconet.system.files import append_text, write_text
from reconet.system.reading import read_file

FORMAT = 1
RECORD = "predictions.jsonl"
JOURNALS = "predictions.*.part"


@dataclass(frozen=True, kw_only=True)
class RecordEntry:
    """One image on record. Paths are relative to the output folder, so that both may move."""

    source: str
    stem: str
    run: str = ""  # hash of network and settings; empty until the image is done
    network: str = ""  # for people
    bytes: int = 0
    mtime_ns: int = 0
    outputs: dict[str, str] = field(default_factory=dict)  # labels, overlay, probabilities
    width: int = 0
    height: int = 0
    shares: dict[str, float] = field(default_factory=dict)
    note: str = ""

    def line(self) -> str:
        """Return the entry as a line of the record."""
        return json.dumps({"format": FORMAT, **asdict(self)}) + "\n"

    def summary(self) -> dict[str, object]:
        """Return the values that a result shows, without empty ones."""
        names = ("width", "height", "outputs", "shares", "note")
        return {name: value for name in names if (value := getattr(self, name))}


Record = dict[str, RecordEntry]  # by source


def read_record(out: Path) -> Record:
    """Read the record of an output folder, with the journals of runs that did not end."""
    record: Record = {}
    for path in [out / RECORD, *sorted(out.glob(JOURNALS))]:
        if path.is_file():
            for line in read_file(path, within=out).splitlines():
                if (entry := _parse(line, path)) is not None:
                    record[entry.source] = entry
    return record


def _parse(line: bytes, path: Path) -> RecordEntry | None:
    try:
        values = json.loads(line)
    except ValueError:  # the last line of a process that was killed
        return None
    if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
        raise DataError(f"{path} was written by another version of reconet; choose another --out.")
    try:
        return RecordEntry(**values)
    except TypeError as error:
        raise DataError(f"{path} is no record of predictions: {error}.") from error


def write_record(
    out: Path, record: Mapping[str, RecordEntry], journals: Iterable[Path] = ()
) -> None:
    """Write the record, then delete the journals that went into it."""
    write_text(out / RECORD, "".join(record[source].line() for source in sorted(record)))
    for path in journals:
        path.unlink(missing_ok=True)


def recorded_outputs(folder: Path) -> set[Path]:
    """Return all files below a folder that its record names as ours."""
    if not (folder / RECORD).is_file() and not any(folder.glob(JOURNALS)):
        return set()
    return {
        folder / name
        for entry in read_record(folder).values()
        for name in possible_files(entry.stem)
    }


def append_to_journal(path: Path, entry: RecordEntry) -> None:
    """Write an entry at once, so that a kill does not lose it."""
    append_text(path, entry.line())


def journal_path(out: Path, token: str, rank: int) -> Path:
    """Return where a process of a run keeps its journal."""
    return out / f"predictions.{token}-{rank}.part"


def source_key(path: Path, out: Path) -> str:
    """Return the key of an image in the record: its path relative to the output folder."""
    return Path(os.path.relpath(path, out)).as_posix()
