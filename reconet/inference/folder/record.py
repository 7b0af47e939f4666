"""Name the files of each image, and record which images are done, in predictions.jsonl.

An image images/sub/street.jpg of the folder `images` becomes, in the output folder,

    sub/street.png            the mask: palette and class numbers
    sub/street.overlay.jpg    the image, tinted (.png if it is too long for a JPEG)
    sub/street.npz            the probabilities

If another image has that name, or a file that we did not write, the suffix stays: street.jpg.png.
If that is taken too, street.jpg~2.png, and so on. Names of a former run do not change.

The record has one line per image. It is appended when the files of a former run are removed and
before the new ones are written. So an image is done if its line is of this network, these settings
and this very image, and its files are there. A kill loses at most the images under way. At the end
the record is sorted. Files that are not on record are not ours, and are never overwritten.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import count
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from reconet.errors import DataError, OutputError
from reconet.system.files import write_text
from reconet.system.readable import counted
from reconet.system.reading import read_file

FORMAT = 1
RECORD = "predictions.jsonl"
JOURNALS = "predictions.*.part"  # of a killed run of 0.1: lines that are not in its record yet
MASK, OVERLAY, LONG_OVERLAY, PROBABILITIES = ".png", ".overlay.jpg", ".overlay.png", ".npz"
ENDINGS = (MASK, OVERLAY, LONG_OVERLAY, PROBABILITIES)
LONGEST = 200  # bytes of a name: file systems take 255, and temporary files add to it


@dataclass(frozen=True, kw_only=True)
class RecordEntry:
    """One image on record. Paths are relative to the output folder, so that both may move."""

    source: str
    stem: str
    run: str = ""  # hash of network and settings; empty if the image is to be done again
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
        return json.dumps({"format": FORMAT, **vars(self)}) + "\n"

    def summary(self) -> dict[str, Any]:
        """Return the values that a result shows, without empty ones."""
        names = ("width", "height", "outputs", "shares", "note")
        return {name: value for name in names if (value := getattr(self, name))}


Record = dict[str, RecordEntry]  # by source


class PlannedImage(NamedTuple):
    """An image, the stem of its files, and what the record says of it."""

    path: Path
    source: str
    stem: str
    entry: RecordEntry | None
    is_done: bool


@dataclass(frozen=True, kw_only=True)
class FolderPlan:
    """What the first process found, the same on all processes."""

    out: Path
    run: str
    network: str
    images: list[PlannedImage]


def make_plan(
    paths: Sequence[Path],
    root: Path,
    out: Path,
    run: str,
    network: str,
    kinds: Iterable[str],
    overwrite: bool,
) -> FolderPlan:
    """Plan the files of all images. With `overwrite` none is done, but the names stay."""
    record = read_record(out)
    _remove_half_files(out, record)
    record = _with_files(out, record)
    if overwrite:
        record = {key: replace(entry, run="") for key, entry in record.items()}
    else:
        _check_same_run(out, record, run)
    stems = name_outputs(paths, root, out, record)
    _write_record(out, record)
    images = []
    for path, stem in stems.items():
        entry = record.get(source := _relative(path, out))
        is_done = entry is not None and entry.run == run and _is_done(entry, out, kinds)
        images.append(PlannedImage(path, source, stem, entry, is_done))
    return FolderPlan(out=out, run=run, network=network, images=images)


def read_record(out: Path) -> Record:
    """Read the record of an output folder."""
    entries = [
        entry
        for path in (out / RECORD, *sorted(out.glob(JOURNALS)))
        if path.is_file()
        for line in read_file(path, within=out).splitlines()
        if (entry := _parse(line, path)) is not None
    ]
    return {entry.source: entry for entry in entries}


def sort_record(out: Path) -> None:
    """Sort the lines that the processes have appended. Images that got no files are left out."""
    _write_record(out, _with_files(out, read_record(out)))


def _with_files(out: Path, record: Record) -> Record:
    return {
        source: entry
        for source, entry in record.items()
        if any((out / name).exists() for name in possible_files(entry.stem))
    }


def _parse(line: bytes, path: Path) -> RecordEntry | None:
    try:
        values = json.loads(line)
    except ValueError:  # the last line of a process that was killed
        return None
    if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
        raise DataError(f"{path} was written by another version of reconet; choose another --out.")
    try:
        entry = RecordEntry(**values)
        place = PurePath(entry.stem + MASK)  # a stem may be ".." alone
        names = [entry.source, *entry.outputs, *entry.outputs.values()]
        if place.is_absolute() or ".." in place.parts or not all(isinstance(n, str) for n in names):
            raise TypeError("it names files elsewhere")
    except (TypeError, AttributeError) as error:
        raise DataError(f"{path} is no record of predictions: {error}.") from error
    return entry


def _write_record(out: Path, record: Record) -> None:
    write_text(out / RECORD, "".join(record[source].line() for source in sorted(record)))
    for journal in out.glob(JOURNALS):
        journal.unlink(missing_ok=True)


def recorded_outputs(folder: Path) -> set[Path]:
    """Return all files below a folder that its record names as ours."""
    if not (folder / RECORD).is_file():
        return set()
    record = read_record(folder)
    return {folder / name for entry in record.values() for name in possible_files(entry.stem)}


def possible_files(stem: str) -> set[str]:
    """Return all files that may be written for an image."""
    return {stem + ending for ending in ENDINGS}


def _relative(path: Path, out: Path) -> str:
    return Path(os.path.relpath(path, out)).as_posix()


def size_and_time(path: Path) -> tuple[int, int]:
    """Return size in bytes and modification time in ns, or (-1, -1) if there is no such file."""
    try:
        status = path.stat()
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


def _is_done(entry: RecordEntry, out: Path, kinds: Iterable[str]) -> bool:
    """Tell whether an entry is of the image as it is now, and all files are there."""
    return (
        entry.outputs.keys() >= set(kinds)
        and size_and_time(out / entry.source) == (entry.bytes, entry.mtime_ns)
        and all((out / name).is_file() for name in entry.outputs.values())
    )


def _check_same_run(out: Path, record: Record, run: str) -> None:
    """Raise if the folder holds predictions of another network or with other settings."""
    others = [entry for entry in record.values() if entry.run not in ("", run)]
    if not others:
        return
    network, settings = run.split("-")
    origin = f"of another network ({others[0].network}), with other settings"
    if all(entry.run.startswith(f"{network}-") for entry in others):
        origin = "of this network with other settings"
    elif all(entry.run.endswith(f"-{settings}") for entry in others):
        origin = f"of another network ({others[0].network})"
    many = counted(len(others), "prediction")
    raise OutputError(f"{out} holds {many} {origin}; name another --out, or --overwrite.")


def _remove_half_files(out: Path, record: Record) -> None:
    """Remove what a killed run has left of files that it had begun to write."""
    ours = {out / name for entry in record.values() for name in possible_files(entry.stem)}
    ours.add(out / RECORD)
    for folder in {path.parent for path in ours}:
        for stray in folder.glob(".*.*.part"):  # .NAME.RANDOM.part
            if folder / stray.name[1:].rsplit(".", 2)[0] in ours:
                stray.unlink(missing_ok=True)


def name_outputs(paths: Sequence[Path], root: Path, out: Path, record: Record) -> dict[Path, str]:
    """Choose a stem for each image, relative to the output folder, so that no two share a file."""
    inputs = set(paths)
    kept = {Path(os.path.normpath(out / key)): entry.stem for key, entry in record.items()}
    # An image that was deleted keeps its output files, but others may take their names.
    kept = {path: stem for path, stem in kept.items() if path in inputs or path.exists()}
    ours = {name for entry in record.values() for name in possible_files(entry.stem)}
    # Some disks do not tell a.png from A.png.
    claimed = {name.casefold() for stem in kept.values() for name in possible_files(stem)}
    stems = {}
    for path in paths:
        stem = kept.get(path)
        for candidate in _candidates(path, root) if stem is None else ():
            files = possible_files(candidate)
            folded = {name.casefold() for name in files}
            if claimed.isdisjoint(folded) and not any(
                out / name in inputs or (name not in ours and os.path.lexists(out / name))
                for name in files
            ):
                stem = candidate
                claimed |= folded
                break
        assert stem is not None
        stems[path] = stem
    return stems


def _candidates(path: Path, root: Path) -> Iterator[str]:
    place = PurePath(os.path.relpath(path, root))
    assert ".." not in place.parts
    folder, name = place.parent, _shorten(place.name)
    yield (folder / _shorten(place.stem)).as_posix()
    yield (folder / name).as_posix()
    for number in count(2):
        yield (folder / f"{name}~{number}").as_posix()


def _shorten(name: str) -> str:
    """Shorten a name to leave room for an ending. Different long names stay different."""
    data = os.fsencode(name)
    if len(data) <= LONGEST:
        return name
    begin = data[: LONGEST - 20].decode(errors="ignore")
    return f"{begin}~{blake2b(data, digest_size=6).hexdigest()}"
