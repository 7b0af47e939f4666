"""Plan a prediction: which images arguments mean, the names of their files, and which are done.

A folder means the images in it and below it, without hidden ones. Links are followed, but no
folder is entered twice, so a loop ends. Links that lead nowhere and folders that cannot be listed
stop nothing: they fail later, by their names. Files that a former run wrote are not predicted: each
folder with a record is asked for them.

The record, predictions.jsonl, has one line per image. It is appended when the files of a former run
are removed and before the new ones are written. So an image is done if its line is of this network,
these settings and this very image, and its files are there. A kill loses at most the images under
way. At the end the record is sorted. Files that are not on record are not ours, and are never
overwritten.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from glob import glob, has_magic
from hashlib import blake2b
from itertools import count
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from reconet.data.images.read import optional_formats
from reconet.data.layout import IMAGES
from reconet.errors import DataError, OutputError
from reconet.system.files import write_text
from reconet.system.readable import counted
from reconet.system.reading import is_folder_entry, read_file

SUFFIXES = (*IMAGES, ".gif", ".jfif", ".jpe", ".ppm", ".pgm", ".pnm", *optional_formats())
VIDEOS = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg")
CAMERA = "camera:"  # before the number of a camera, as in camera:0
FORMAT = 1
RECORD = "predictions.jsonl"
JOURNALS = "predictions.*.part"  # of a killed run of 0.1: lines that are not in its record yet
ENDINGS = {
    "labels": ".png",
    "overlay": ".overlay.jpg",
    "probabilities": ".npz",
    "confidence": ".confidence.png",
}
LONG_OVERLAY = ".overlay.png"
LONGEST = 200  # bytes of a name: file systems take 255, and temporary files add to it


class FoundImages(NamedTuple):
    """The images that are to be predicted."""

    paths: list[Path]  # absolute, each once
    root: Path  # the deepest folder that all arguments share; outputs keep their places below it
    untried: dict[str, int]  # other files in the folders: how many of each suffix


def find_images(arguments: Sequence[str]) -> FoundImages:
    """Find the images of all arguments. Raise if an argument names none."""
    images: dict[Path, None] = {}
    bases: list[str] = []  # the folders that the places of images are relative to
    untried: Counter[str] = Counter()
    for argument in arguments:
        path = Path(os.path.abspath(argument))
        if argument.startswith("@"):
            found = read_list(argument[1:])
            bases += [str(one.parent) for one in found]
        elif path.is_dir():
            found = _walk(path, untried)
            bases.append(str(path))
        elif os.path.lexists(path):
            found = [path]
            bases.append(str(path.parent))
        elif has_magic(argument):
            found = _match(argument)
            wild = next(number for number, part in enumerate(path.parts) if has_magic(part))
            bases.append(str(Path(*path.parts[:wild])))
        else:
            raise DataError(f"no such file or folder: {argument}.")
        images |= dict.fromkeys(found)
    return FoundImages(list(images), Path(os.path.commonpath(bases)), dict(untried.most_common()))


def _walk(folder: Path, untried: Counter[str]) -> list[Path]:
    """Return the images in a folder and below, but none of ours. Count the other files."""
    entered: set[tuple[int, int]] = set()
    written: set[Path] = set()
    files: list[Path] = []
    unlisted: list[Path] = []

    waiting = [folder]
    while waiting:  # os.walk calls itself for each level, and Python limits that
        place = waiting.pop()
        try:
            status = os.stat(place)
            entries = sorted(os.scandir(place), key=lambda entry: entry.name)
        except OSError as error:
            if place == folder:
                raise DataError(f"cannot list {folder}: {error.strerror}.") from error
            unlisted.append(place)
            continue
        if (status.st_dev, status.st_ino) in entered:
            continue
        entered.add((status.st_dev, status.st_ino))
        written |= recorded_outputs(place)
        seen = [one for one in entries if not one.name.startswith(".") and one.name != RECORD]
        below = [one for one in seen if is_folder_entry(one)]
        waiting += map(Path, reversed(below))
        files += [Path(x) for x in seen if x not in below and (x.is_symlink() or x.is_file())]
    files = [path for path in files if path not in written]
    images = sorted([path for path in files if path.suffix.lower() in SUFFIXES] + unlisted)
    if not images:
        raise DataError(f"no images ({', '.join(SUFFIXES)}) in {folder}.")
    others = [path.suffix.lower() for path in files if path.suffix.lower() not in SUFFIXES]
    untried.update(suffix or "no suffix" for suffix in others)
    return images


def _match(pattern: str) -> list[Path]:
    try:
        paths = [Path(os.path.abspath(name)) for name in glob(pattern, recursive=True)]
    except RecursionError as error:
        raise DataError(
            f"the folders of {pattern!r} nest too deeply for a pattern; name the folder itself."
        ) from error
    images = sorted(path for path in paths if path.suffix.lower() in SUFFIXES and path.is_file())
    written: set[Path] = set()
    for folder in {parent for path in images for parent in path.parents}:
        written |= recorded_outputs(folder)
    if not (found := [path for path in images if path not in written]):
        raise DataError(f"no image matches {pattern!r}.")
    return found


def read_list(name: str) -> list[Path]:
    """Read a list of paths, one on each line. "-" reads the standard input.

    Paths are relative to the working directory. A listed file that is missing fails later, when it
    is to be predicted, like any broken file.
    """
    try:
        data = sys.stdin.buffer.read() if name == "-" else read_file(Path(name))
    except OSError as error:
        raise DataError(
            f"cannot read the list {name}: {(error.strerror or '').lower()}."
        ) from error
    lines = [os.fsdecode(line).strip() for line in data.removeprefix(b"\xef\xbb\xbf").splitlines()]
    if not any(lines):
        raise DataError(f"the list {name} is empty.")
    if any("\0" in line for line in lines):
        raise DataError(f"{name} is no list of paths, one on each line: it holds binary data.")
    return [Path(os.path.abspath(os.path.expanduser(line))) for line in lines if line]


def is_video(argument: str) -> bool:
    """Tell whether an argument names a video or a camera."""
    return argument.startswith(CAMERA) or argument.lower().endswith(VIDEOS)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One image on record. Paths are relative to the output folder, so that both may move."""

    source: str
    stem: str
    run: str = ""  # hash of network and settings; empty if the image is to be done again
    network: str = ""  # for people
    bytes: int = 0
    mtime_ns: int = 0
    outputs: dict[str, str] = field(default_factory=dict)  # by kind
    width: int = 0
    height: int = 0
    shares: dict[str, float] = field(default_factory=dict)
    confidence: dict[str, float] = field(default_factory=dict)  # of its pixels: mean, lowest_decile
    note: str = ""

    def line(self) -> str:
        """Return the entry as a line of the record."""
        return json.dumps({"format": FORMAT, **vars(self)}) + "\n"

    def summary(self) -> dict[str, Any]:
        """Return the values that a result shows, without empty ones."""
        names = ("width", "height", "outputs", "shares", "confidence", "note")
        return {name: value for name in names if (value := getattr(self, name))}


class Job(NamedTuple):
    """An image to predict, with what the record says of it: at least the stem of its files."""

    path: Path
    entry: Entry
    is_done: bool = False

    def version(self) -> tuple[int, int]:
        """Return size in bytes and modification time in ns, or (-1, -1) without such a file."""
        try:
            status = os.stat(self.path)
        except OSError:
            return -1, -1
        return status.st_size, status.st_mtime_ns


def plan_jobs(
    paths: Sequence[Path], root: Path, out: Path, run: str, kinds: Sequence[str], overwrite: bool
) -> list[Job]:
    """Plan the files of all images. With `overwrite` none is done, but the names stay."""
    record = read_record(out)
    _remove_half_files(out, record)
    record = _with_files(out, record)
    others = [entry for entry in record.values() if entry.run not in ("", run)]
    if others and not overwrite:
        network, same = others[0].network, run.split("-")[0]
        origin = f"of another network ({network}), or with other settings"
        if all(entry.run.startswith(f"{same}-") for entry in others):
            origin = "of this network with other settings"
        many = counted(len(others), "prediction")
        raise OutputError(f"{out} holds {many} {origin}; name another --out, or --overwrite.")
    if overwrite:
        record = {source: replace(entry, run="") for source, entry in record.items()}
    _write_record(out, record)
    jobs = []
    for path, stem in name_outputs(paths, root, out, record).items():
        source = Path(os.path.relpath(path, out)).as_posix()
        job = Job(path, record.get(source) or Entry(source=source, stem=stem))
        jobs.append(job._replace(is_done=_is_done(job, out, run, kinds)))
    return jobs


def _is_done(job: Job, out: Path, run: str, kinds: Sequence[str]) -> bool:
    """Tell whether an entry is of this run and of the image as it is now, and its files exist."""
    entry = job.entry
    return (
        entry.run == run
        and entry.outputs.keys() >= set(kinds)
        and job.version() == (entry.bytes, entry.mtime_ns)
        and all((out / name).is_file() for name in entry.outputs.values())
    )


def read_record(out: Path) -> dict[str, Entry]:
    """Read the record of an output folder, by source."""
    files = [path for path in (out / RECORD, *sorted(out.glob(JOURNALS))) if path.is_file()]
    lines = [(line, path) for path in files for line in read_file(path, within=out).splitlines()]
    entries = [entry for line, path in lines if (entry := _parse(line, path)) is not None]
    return {entry.source: entry for entry in entries}


def sort_record(out: Path) -> None:
    """Sort the lines that the processes have appended. Images that got no files are left out."""
    _write_record(out, _with_files(out, read_record(out)))


def recorded_outputs(folder: Path) -> set[Path]:
    """Return all files below a folder that its record names as ours."""
    if not (folder / RECORD).is_file():
        return set()
    return {folder / name for e in read_record(folder).values() for name in possible_files(e.stem)}


def possible_files(stem: str) -> set[str]:
    """Return all files that may be written for an image."""
    return {stem + ending for ending in (*ENDINGS.values(), LONG_OVERLAY)}


def _with_files(out: Path, record: dict[str, Entry]) -> dict[str, Entry]:
    return {
        source: entry
        for source, entry in record.items()
        if any((out / name).exists() for name in possible_files(entry.stem))
    }


def _parse(line: bytes, path: Path) -> Entry | None:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):  # the last line of a process that was killed
        return None
    if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
        raise DataError(f"{path} was written by another version of reconet; choose another --out.")
    try:
        entry = Entry(**values)
        place = PurePath(f"{entry.stem}.png")  # a stem may be ".." alone
        texts = isinstance(entry.source, str) and isinstance(entry.stem, str)
        inside = not place.is_absolute() and ".." not in place.parts
        if not (texts and inside and set(entry.outputs.values()) <= possible_files(entry.stem)):
            raise TypeError("it names files elsewhere")
        sizes = (entry.width, entry.height)
        numbers = all(type(share) in (int, float) for share in entry.shares.values())
        if not numbers or not all(type(size) is int and size >= 0 for size in sizes):
            raise TypeError("its sizes are no numbers")
        if entry.shares and 0 in sizes:
            raise TypeError("its image has no pixels")
    except (TypeError, AttributeError) as error:
        raise DataError(f"{path} is no record of predictions: {error}.") from error
    return entry


def _write_record(out: Path, record: dict[str, Entry]) -> None:
    write_text(out / RECORD, "".join(record[source].line() for source in sorted(record)))
    for journal in out.glob(JOURNALS):
        journal.unlink(missing_ok=True)


def _remove_half_files(out: Path, record: dict[str, Entry]) -> None:
    """Remove what a killed run has left of files that it had begun to write."""
    ours = {out / name for entry in record.values() for name in possible_files(entry.stem)}
    ours.add(out / RECORD)
    for folder in {path.parent for path in ours}:
        for stray in folder.glob(".*.*.part"):  # .NAME.RANDOM.part
            if folder / stray.name[1:].rsplit(".", 2)[0] in ours:
                stray.unlink(missing_ok=True)


def name_outputs(
    paths: Sequence[Path], root: Path, out: Path, record: dict[str, Entry]
) -> dict[Path, str]:
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
