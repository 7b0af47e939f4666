"""Write predicted labels so that nothing is lost: no file of others, and none that was corrected.

The folder keeps a list of what was written, .prelabels.jsonl, with a hash of each file. A file
that is not as it was written belongs to the user, and is kept. Each file is written in one move.
"""

import json
import os
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from reconet.data.formats.reading import BACKGROUND_NAMES, Encode, PredictedImage, WrittenClass
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
    for name, text in encode(
        _told(images, notes, progress), _classes_to_write(classes, palette), folder
    ):
        path, digest = folder / name, _hash(text.encode())
        there = _hash(_read(path)) if os.path.lexists(path) else ""
        if name.casefold() in seen:  # some disks do not tell a.txt from A.txt
            notes.append(f"left out: another image has {path} too; rename one.")
        elif not path.parent.resolve().is_relative_to(folder.resolve()):
            raise OutputError(f"cannot write {path}: a link leads out of {folder}.")
        elif there and there != digest and there not in ours[name]:
            notes.append(f"kept as it is: {path} was changed since, or is not of reconet.")
        else:
            written += 1
            if there != digest:
                folder.mkdir(parents=True, exist_ok=True)
                line = json.dumps({"name": name, "hash": digest})
                append_text(folder / RECORD, line + "\n")  # first: a kill may come between
                write_text(path, text)
        seen.add(name.casefold())
    return WrittenLabels(format=format_name, folder=folder, files=written, notes=tuple(notes))


def _classes_to_write(classes: Sequence[str], palette: Sequence[Colour]) -> list[WrittenClass]:
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


def _read_record(folder: Path) -> dict[str, set[str]]:
    """Return the hashes of what was ever written to each file."""
    found: dict[str, set[str]] = defaultdict(set)
    if (folder / RECORD).exists():
        for line in _read(folder / RECORD).splitlines():
            # The last line may be cut off, by a kill.
            with suppress(ValueError, TypeError, KeyError):
                values = json.loads(line)
                found[values["name"]].add(values["hash"])
    return found


def _read(path: Path) -> bytes:
    try:
        return read_file(path, within=path.parent)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}.") from error


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
