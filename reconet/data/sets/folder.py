"""Your own images: a folder of images and a folder of masks.

    root/images/**/*.jpg       any image format
    root/masks/**/*.png        a mask of the same name for each image

Which images are train, and which val?
1. If there are folders images/train and masks/train (and val, test), they decide.
2. Otherwise, if there are lists train.txt and val.txt in the root, with a name on each line (as
   under images, with or without its suffix), they decide.
3. Otherwise the fraction `val_fraction` of all images is val. A hash of the name decides which,
   so it is the same on every machine.
A split `test` exists in cases 1 and 2 only, and needs no masks.

Instead of two folders, `pairs` names a text file with an image and a mask on each line, relative
to the root, separated by a tab (or by a space, where names have none). If its name contains
{split}, as in "{split}.tsv", there is a file for each split. Otherwise case 3 applies.

What do the numbers in the masks mean? By default number i is class i, and 255 is void. With
`label_map` only the numbers in it are legal. With `colours` masks are read as RGB colours.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from unicodedata import normalize

from reconet.data.dataset import DatasetInfo, FileDataset, Pair
from reconet.data.entry import DatasetEntry
from reconet.data.layout import IMAGES, contents, find_root, has_suffix, need_folder, read_lines
from reconet.data.sets.folder_masks import FolderOptions, mask_reader, palette_of
from reconet.errors import AbsentError, DataError

SPLITS = ("train", "val", "test")
MASKS = (".png", ".bmp", ".tif", ".tiff", ".gif", ".webp")


def open_folder(root: Path, split: str, options: FolderOptions) -> FileDataset:
    if options.pairs:
        pairs = _from_file(root, split, options.pairs, options.val_fraction)
    else:
        pairs = _from_folders(root, split, options)
    info = replace(FOLDER.info, classes=options.classes, palette=palette_of(options))
    return FileDataset(info=info, split=split, pairs=pairs, read_label=mask_reader(options))


def _from_folders(root: Path, split: str, options: FolderOptions) -> list[Pair]:
    home = find_root(root, FOLDER.info.title, (options.images,))
    images, masks = need_folder(home / options.images), home / options.masks
    folders = [name for name in SPLITS if (images / name).is_dir()]
    lists = [name for name in SPLITS if (home / f"{name}.txt").is_file()]
    if folders:
        _check_has(split, folders, f"{images} has the folders")
        images, masks = images / split, masks / split
    elif lists:
        _check_has(split, lists, f"{home} has lists for")
    elif split == "test":
        raise AbsentError(f"no test images: expected {images / 'test'} or {home / 'test.txt'}.")

    found = _by_name(images, IMAGES)
    names: Sequence[str] = sorted(found)
    if lists and not folders:
        names = [_name(line) for line in read_lines(home / f"{split}.txt")]
        _check_all(names, found, f"images of {split}.txt are not in {images}")
    elif not folders:
        names = images_of(split, names, options.val_fraction)
    if split == "test":
        return [Pair(name, found[name], None) for name in names]
    mask_of = _by_name(need_folder(masks), MASKS)
    wanted = [name + options.mask_suffix for name in names]
    _check_all(wanted, mask_of, f"masks are not in {masks}")
    return [
        Pair(name, found[name], mask_of[mask]) for name, mask in zip(names, wanted, strict=True)
    ]


def _from_file(root: Path, split: str, file: str, val_fraction: float) -> list[Pair]:
    path = root / file.replace("{split}", split)
    pairs: dict[str, Pair] = {}
    for line in read_lines(path):
        image, *mask = line.split("\t") if "\t" in line else line.split()
        if len(mask) != 1 and not (split == "test" and not mask):
            raise DataError(f"{path} takes an image and a mask, with a tab between; got {line!r}.")
        name = _name(image)
        if name in pairs:
            raise DataError(f"{path} has the image {name} more than once.")
        pairs[name] = Pair(name, root / image, root / mask[0] if mask else None)
    if "{split}" in file:
        return list(pairs.values())
    if split == "test":
        raise AbsentError(f"{path} has no test images: use a file for each split, {{split}}.tsv.")
    return [pairs[name] for name in images_of(split, sorted(pairs), val_fraction)]


def images_of(split: str, names: Sequence[str], val_fraction: float) -> list[str]:
    """Return the images of train or val. Those with the smallest hashes of their names are val."""
    if len(names) < 2:
        raise DataError(f"{len(names)} image cannot be split into train and val.")
    count = min(max(1, round(len(names) * val_fraction)), len(names) - 1)
    val = set(sorted(names, key=lambda name: blake2b(os.fsencode(name)).digest())[:count])
    return [name for name in names if (name in val) == (split == "val")]


def _by_name(folder: Path, suffixes: Sequence[str]) -> dict[str, Path]:
    """Find the files under a folder, by name. Names must differ in more than the suffix."""
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        if has_suffix(path, suffixes):
            name = _name(path.relative_to(folder).as_posix())
            if name in found:
                raise DataError(f"{found[name]} and {path.name} have the same name.")
            found[name] = path
    if not found:
        kinds = ", ".join(suffixes)
        raise DataError(f"no {kinds} files in {folder}; found {contents(folder)}.")
    return found


def _name(file: str) -> str:
    """Strip the suffix of a relative path. é is one letter, however the disk spells it."""
    suffix = Path(file).suffix
    stem = file.removesuffix(suffix) if suffix.lower() in IMAGES + MASKS else file
    return normalize("NFC", stem)


def _check_has(split: str, found: Sequence[str], where: str) -> None:
    if split not in found:
        raise DataError(f"no images for the split {split}: {where} {', '.join(found)}.")


def _check_all(names: Sequence[str], found: Mapping[str, Path], what: str) -> None:
    absent = [name for name in names if name not in found]
    if absent:
        raise DataError(
            f"{len(absent)} of {len(names)} {what}, such as {', '.join(absent[:3])}; "
            f"there are {', '.join(list(found)[:3])}."
        )


FOLDER = DatasetEntry(
    info=DatasetInfo(
        name="folder",
        title="your own images",
        classes=(),
        palette=(),
        splits=dict.fromkeys(SPLITS),
        disjoint=(("train", "val"), ("train", "test"), ("val", "test")),
        layout=(
            "images/*.jpg and masks/*.png of the same name",
            "or images/{train,val}/*.jpg and masks/{train,val}/*.png",
            "or lists {train,val}.txt, or a file of pairs",
        ),
        licence="yours",
        source="your disk",
        notes=("data.options.classes names the classes, in the order of the labels",),
    ),
    open=open_folder,
    options=FolderOptions,
    terms="images of who trained it, under terms that are theirs to state",
)
