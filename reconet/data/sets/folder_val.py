"""Divide images into train and val, where neither folders nor lists do.

The images with the smallest hashes of their names are val, so it is the same on every machine. Then
images move between the two, so that a class of at least two images is in both. Equal files count
as one image: they are on the same side.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from reconet.data.dataset import Pair
from reconet.data.images.read import MAX_BYTES
from reconet.data.sets.folder_masks import FolderOptions, mask_reader
from reconet.errors import DataError
from reconet.system.reading import read_file
from reconet.types import IGNORE

MOST_MASKS = 2000  # beyond these, reading all masks takes long, and rare classes are less rare
ABOUT_MASKS = ("classes", "label_map", "colours", "ignore")  # the options that say what masks mean


def images_of(split: str, names: Sequence[str], val_fraction: float) -> list[str]:
    """Return the images of train or val. Those with the smallest hashes of their names are val."""
    if len(names) < 2:
        raise DataError(f"{len(names)} image cannot be split into train and val.")
    count = min(max(1, round(len(names) * val_fraction)), len(names) - 1)
    val = set(sorted(names, key=_hash)[:count])
    return [name for name in names if (name in val) == (split == "val")]


def divide_pairs(split: str, pairs: Sequence[Pair], options: FolderOptions) -> list[Pair]:
    """Return the pairs of train or val, with every class in both if the options ask for it."""
    first_of: Mapping[str, str] = {pair.name: pair.name for pair in pairs}
    if options.val_choice != "hash":
        equal = _first_of(tuple(pairs))
        first_of = equal if len(set(equal.values())) > 1 else first_of
    firsts = list(dict.fromkeys(first_of.values()))
    val = set(images_of("val", firsts, options.val_fraction))
    if options.val_choice == "classes" and len(pairs) <= MOST_MASKS:
        given = options.model_dump_json(include=set(ABOUT_MASKS) & options.model_fields_set)
        times = tuple(p.mask.stat().st_mtime_ns for p in pairs if p.mask and p.mask.exists())
        classes_of = _classes_of(tuple(pairs), times, given)
        together: dict[str, frozenset[int]] = dict.fromkeys(firsts, frozenset())
        for name, first in first_of.items():
            together[first] |= classes_of[name]
        val = keep_classes(val, together)
    return [pair for pair in pairs if (first_of[pair.name] in val) == (split == "val")]


@lru_cache(maxsize=4)
def _first_of(pairs: tuple[Pair, ...]) -> Mapping[str, str]:
    """Return for each image the first one whose file is equal. Only files of one size are read."""
    by_size: dict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        with suppress(OSError):  # the check will tell
            by_size[pair.image.stat().st_size].append(pair)
    firsts: dict[bytes, str] = {}
    found = {pair.name: pair.name for pair in pairs}
    for some in by_size.values():
        for pair in some if len(some) > 1 else ():
            with suppress(OSError):
                digest = blake2b(read_file(pair.image, limit=MAX_BYTES), digest_size=16).digest()
                found[pair.name] = firsts.setdefault(digest, pair.name)
    return found


def keep_classes(val: set[str], classes_of: Mapping[str, frozenset[int]]) -> set[str]:
    """Move images between val and train until each class of two or more images is in both.

    A move must leave fewer such classes in one part alone than before. Where classes share images,
    some may stay there.
    """
    chosen = set(val)
    total = Counter(label for labels in classes_of.values() for label in labels)
    rare_first = sorted((n, label) for label, n in total.items() if n >= 2)
    in_order = sorted(classes_of, key=_hash)
    for _, label in rare_first:
        inside = Counter(one for name in chosen for one in classes_of[name])
        if 0 < inside[label] < total[label]:
            continue
        best, gain = "", 0
        for name in in_order:
            if label in classes_of[name]:
                better = _gain(classes_of[name], inside, total, -1 if name in chosen else 1)
                best, gain = (name, better) if better > gain else (best, gain)
        if best:
            chosen ^= {best}
    return chosen


def _gain(
    labels: frozenset[int], inside: Mapping[int, int], total: Mapping[int, int], step: int
) -> int:
    """Count how many more classes are in both parts if an image moves into val, or out of it."""
    before = sum(0 < inside[label] < total[label] for label in labels)
    return sum(0 < inside[label] + step < total[label] for label in labels) - before


def _hash(name: str) -> bytes:
    return blake2b(os.fsencode(name)).digest()


@lru_cache(maxsize=4)  # train and val are opened one after the other
def _classes_of(
    pairs: tuple[Pair, ...], _times: tuple[int, ...], options: str
) -> Mapping[str, frozenset[int]]:
    """Read which classes each mask has. One that cannot be read has none."""
    read = mask_reader(FolderOptions.model_validate_json(options))
    found: dict[str, frozenset[int]] = {}
    for name, _, mask in pairs:
        try:
            labels = np.unique(read(mask)).tolist() if mask is not None else []
        except DataError:
            labels = []
        found[name] = frozenset(labels) - {IGNORE}
    return found
