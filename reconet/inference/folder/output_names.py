"""Name the output files of each image.

An image images/sub/street.jpg of the folder `images` becomes, in the output folder,

    sub/street.png            the mask: palette and class numbers
    sub/street.overlay.jpg    the image, tinted (.png if it is too long for a JPEG)
    sub/street.npz            the probabilities

If another image has that name, or a file that we did not write, the suffix stays: street.jpg.png.
If that is taken too, street.jpg~2.png, and so on. Names of a former run do not change.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import count
from pathlib import Path, PurePath

MASK, OVERLAY, LONG_OVERLAY, PROBABILITIES = ".png", ".overlay.jpg", ".overlay.png", ".npz"
ENDINGS = {
    "labels": (MASK,),
    "overlay": (OVERLAY, LONG_OVERLAY),
    "probabilities": (PROBABILITIES,),
}  # of each kind of output
LONGEST = 200  # bytes of a name: file systems take 255, and temporary files add to it


def possible_files(stem: str) -> set[str]:
    """Return all files that may be written for an image."""
    return {stem + ending for endings in ENDINGS.values() for ending in endings}


def name_outputs(
    images: Sequence[Path],
    root: Path,
    kept: Mapping[Path, str],
    is_foreign: Callable[[str], bool],
) -> dict[Path, str]:
    """Choose a stem for each image, relative to the output folder, so that no two share a file.

    `kept` are the stems of a former run. `is_foreign` tells of a file in the output folder whether
    it exists and is not ours.
    """
    claimed = {name.casefold() for stem in kept.values() for name in possible_files(stem)}
    stems = {path: kept[path] for path in images if path in kept}
    for path in images:
        if path in stems:
            continue
        for stem in _candidates(path, root):
            files = possible_files(stem)
            folded = {name.casefold() for name in files}  # some disks do not tell a.png from A.png
            if claimed.isdisjoint(folded) and not any(map(is_foreign, files)):
                claimed |= folded
                stems[path] = stem
                break
    return {path: stems[path] for path in images}


def _candidates(path: Path, root: Path) -> Iterator[str]:
    place = PurePath(os.path.relpath(path, root))
    assert ".." not in place.parts
    assert not place.is_absolute()
    folder, name = place.parent, _shorten(place.name)
    yield (folder / (_shorten(place.stem))).as_posix()
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
