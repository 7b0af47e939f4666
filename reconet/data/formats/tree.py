"""Look at a folder that nobody has described: its files, and the images that annotations name."""

import json
import os
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from reconet.data.layout import IMAGES, has_suffix, split_called
from reconet.errors import DataError
from reconet.system.reading import TEXT_BYTES, is_folder_entry, read_file

MOST_FILES = 2_000_000
LARGE = 2**22  # bytes
DEEPEST = 12  # folders within folders
LONGEST = 100  # letters of a name in a message
IMAGE_FOLDERS = (
    "images", "image", "imgs", "img", "jpegimages", "photos", "rgb", "inputs", "data",
    "leftimg8bit",
)  # fmt: skip
MASK_FOLDERS = (
    "1st_manual", "masks", "mask", "labels", "label", "annotations", "annotation",
    "segmentationclass", "segmentationclasspng", "segmentation", "segmentations", "groundtruth",
    "ground_truth", "gt", "targets", "gtfine", "gtcoarse", "trimaps",
)  # fmt: skip
SAY_NOTHING = {*IMAGE_FOLDERS, *MASK_FOLDERS, "json", "jsons", "pictures", "dataset"}


@dataclass(frozen=True, eq=False)
class Tree:
    """A folder and all files under it that are not hidden, sorted."""

    folder: Path
    files: tuple[Path, ...]  # relative to the folder
    _kept: dict[Path, Any] = field(default_factory=dict, repr=False)

    def with_suffix(self, *suffixes: str) -> list[Path]:
        """List the files with one of these suffixes."""
        return [path for path in self.files if path.suffix.lower() in suffixes]

    @cached_property
    def images(self) -> list[Path]:
        return [path for path in self.files if has_suffix(path, IMAGES)]

    @cached_property
    def image_set(self) -> frozenset[Path]:
        return frozenset(self.images)

    @cached_property
    def folders(self) -> dict[Path, list[Path]]:
        """Return the files of each folder."""
        found: dict[Path, list[Path]] = defaultdict(list)
        for path in self.files:
            found[path.parent].append(path)
        return dict(found)

    @cached_property
    def _by_last_name(self) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = defaultdict(list)
        for path in self.images:
            found[path.name].append(path)
        return dict(found)

    def find_image(self, name: str, near: Path = Path(), split: str = "") -> Path | None:
        """Find an image by the name that a file of the folder `near` gives it.

        The longest end of the name that fits decides: annotations often name the folders of
        another machine. But seq2/0000.png is not seq1/0000.png, and an image of val is not in the
        folder train. Of several images, one near the annotations is meant.
        """
        parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
        found = self._by_last_name.get(parts[-1], []) if parts else []
        split = split_of_folder(Path(*parts)) or split
        ends: dict[int, list[Path]] = defaultdict(list)  # by the number of names that fit
        for path in found:
            fits = _common_end(path.parts, parts)
            start = len(near.parts) if path.is_relative_to(near) else 0
            elsewhere = _telling(path.parts[start:-fits]) and _telling(parts[:-fits])
            if not elsewhere and split in ("", split_of_folder(path) or split):
                ends[fits].append(path)
        if found and not ends:
            of_split = f" of {split}" if split else ""
            raise DataError(
                f"the labels of {self.folder / near} name {name[-LONGEST:]!r}{of_split}, and there "
                f"is only {found[0]}: another image? If not, call its folder images."
            )
        best = ends[max(ends)] if ends else []
        if len(best) > 1:
            best = [path for path in best if path.is_relative_to(near)] or best
        if len(best) > 1:
            raise DataError(
                f"{name!r} may be {self.folder / best[0]} or {self.folder / best[1]}: "
                "give images different names, or put the annotations beside them."
            )
        return best[0] if best else None

    def read(self, path: Path) -> bytes:
        """Read an annotation file of the folder."""
        try:
            return read_file(self.folder / path, limit=TEXT_BYTES)
        except OSError as error:
            reason = error.strerror or error
            raise DataError(f"cannot read {self.folder / path}: {reason}.") from error

    def read_json(self, path: Path) -> Any:
        """Read a json file of the folder. Large ones are kept: several formats look at them."""
        if path in self._kept:
            return self._kept[path]
        data, place = self.read(path), self.folder / path
        try:
            content = json.loads(data.decode("utf-8-sig"))
        except json.JSONDecodeError as error:
            raise DataError(f"{place}, line {error.lineno}: {error.msg}.") from error
        except RecursionError as error:
            raise DataError(f"{place} nests too deeply.") from error
        except ValueError as error:  # no UTF-8, or a number of thousands of digits
            raise DataError(f"cannot read {place}: {str(error)[:100]}.") from error
        if len(data) >= LARGE:
            self._kept[path] = content
        return content

    def try_json(self, path: Path) -> Any:
        """Read a json file, or return None: the format that it has will tell what is wrong."""
        try:
            return self.read_json(path)
        except DataError:
            return None


def read_tree(folder: Path) -> Tree:
    """List the files under a folder. Links to folders are followed, once each."""
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise DataError(f"{folder} {what}.")
    files: list[Path] = []
    seen: set[tuple[int, int]] = set()
    todo = [Path()]
    while todo:
        place = todo.pop()
        try:
            status = os.stat(folder / place)
            entries = list(os.scandir(folder / place))
        except OSError as error:
            raise DataError(f"cannot read {folder / place}: {error.strerror}.") from error
        if (status.st_dev, status.st_ino) in seen or len(place.parts) > DEEPEST:
            continue
        seen.add((status.st_dev, status.st_ino))
        for entry in sorted(entries, key=lambda entry: entry.name):
            if not entry.name.startswith((".", "__MACOSX")):
                (todo if is_folder_entry(entry) else files).append(place / entry.name)
        if len(files) > MOST_FILES:
            raise DataError(f"{folder} holds more than {MOST_FILES:,} files.")
    return Tree(folder, tuple(sorted(files)))


def split_of_folder(path: Path) -> str:
    """Return the split that a folder of a path is called: images/val/a.jpg is val."""
    return next(filter(None, map(split_called, reversed(path.parts[:-1]))), "")


def split_of_file(path: Path) -> str:
    """Return the split of a file of annotations: instances_val2017.json, or val/a.json."""
    found = {*map(split_called, re.split(r"[^a-z]+", path.stem.lower()))} - {""}
    return found.pop() if len(found) == 1 else split_of_folder(path)


def such_as(names: Sequence[str], most: int = 3) -> str:
    """Name the first few of many."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _telling(folders: Sequence[str]) -> bool:
    """Return whether some folder is not called images, train or the like."""
    plain = (folder.lower().rstrip("0123456789_-") for folder in folders)
    return any(folder not in SAY_NOTHING and not split_called(folder) for folder in plain)


def _common_end(one: Sequence[str], other: Sequence[str]) -> int:
    same = (a == b for a, b in zip(reversed(one), reversed(other), strict=False))
    return next((count for count, equal in enumerate(same) if not equal), min(len(one), len(other)))
