"""Write predicted labels so that nothing is lost: no file of others, and none that was corrected.

The folder keeps a list of what was written, .prelabels.jsonl, with a hash of each file. A file
that is not as it was written belongs to the user, and is kept. Each file is written in one move.
"""

import json
import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from reconet.data.formats.labelled import (
    BACKGROUND_NAMES,
    Encode,
    PredictedImage,
    TextFile,
    WrittenClass,
)
from reconet.errors import DataError, OutputError
from reconet.system.files import append_text, write_text
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import printable
from reconet.system.reading import read_file
from reconet.types import Colour

RECORD = ".prelabels.jsonl"  # hidden: no format reads it


@dataclass(frozen=True, kw_only=True)
class WrittenLabels:
    """What was written."""

    format: str
    folder: Path
    files: int
    notes: tuple[str, ...]  # files that were kept, images that were left out

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return vars(self) | {"folder": str(self.folder), "notes": list(self.notes)}


def write_files(
    format_name: str,
    encode: Encode,
    out: Path,
    images: Sequence[PredictedImage],
    classes: Sequence[str],
    palette: Sequence[Colour],
    progress: Progress = SILENT,
) -> WrittenLabels:
    """Write the labels of images in a format, into a folder of its name in `out`."""
    folder = out / format_name
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise OutputError(f"cannot write {folder}: it is no ordinary folder.")
    notes: list[str] = []
    ours, written, seen = _read_record(folder), 0, set[str]()
    progress.start(len(images), f"write {format_name}")
    for file in encode(_told(images, notes, progress), classes_to_write(classes, palette), folder):
        if file.name.casefold() in seen:  # some disks do not tell a.txt from A.txt
            notes.append(f"left out: another image has {folder / file.name} too; rename one.")
            continue
        seen.add(file.name.casefold())
        written += _write(folder, file, ours, notes)
    return WrittenLabels(format=format_name, folder=folder, files=written, notes=tuple(notes))


def classes_to_write(classes: Sequence[str], palette: Sequence[Colour]) -> list[WrittenClass]:
    """List all classes but the background: class 0, if it is called so.

    In these formats pixels in no region are background. A region of it would cover the image.
    """
    names = [printable(" ".join(name.split())) for name in classes]
    skipped = int(bool(names) and names[0].lower() in BACKGROUND_NAMES)
    return [
        WrittenClass(number, label, names[label], "#{:02x}{:02x}{:02x}".format(*palette[label]))
        for number, label in enumerate(range(skipped, len(names)))
    ]


def _told(
    images: Iterable[PredictedImage], notes: list[str], progress: Progress
) -> Iterator[PredictedImage]:
    """Yield the images whose names these formats can hold, and count them."""
    for image in images:
        if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in image.name):
            notes.append(f"left out: {image.path}: no file of labels can hold its name.")
        else:
            yield image
        progress.advance()


def _write(folder: Path, file: TextFile, ours: dict[str, set[str]], notes: list[str]) -> bool:
    """Write a file, unless one is there that is not as reconet wrote it."""
    path, digest = folder / file.name, _hash(file.text.encode())
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        raise OutputError(f"cannot write {path}: a link leads out of {folder}.")
    if os.path.lexists(path):
        there = _hash(_read(path))
        if there == digest:
            return True
        if there not in ours.get(file.name, ()):
            notes.append(f"kept as it is: {path} was changed since, or is not of reconet.")
            return False
    folder.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"name": file.name, "hash": digest})
    append_text(folder / RECORD, line + "\n")  # first: a kill may come between
    write_text(path, file.text)
    return True


def _read_record(folder: Path) -> dict[str, set[str]]:
    """Return the hashes of what was ever written to each file."""
    found: dict[str, set[str]] = {}
    if not (folder / RECORD).exists():
        return found
    for line in _read(folder / RECORD).splitlines():
        try:
            values = json.loads(line)
            found.setdefault(values["name"], set()).add(values["hash"])
        except (ValueError, TypeError, KeyError):  # the last line of a process that was killed
            continue
    return found


def _read(path: Path) -> bytes:
    try:
        return read_file(path, within=path.parent)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}.") from error


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
