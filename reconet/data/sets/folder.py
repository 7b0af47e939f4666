"""Your own images: a folder of images and a folder of masks.

    root/images/**/*.jpg       any image format
    root/masks/**/*.png        a mask of the same name for each image

Which images are train, and which val?
1. If there are folders images/train and masks/train (and val, test), they decide.
2. Otherwise, if there are lists train.txt and val.txt in the root, with a name on each line (as
   under images, with or without its suffix), they decide.
3. Otherwise the fraction `val_fraction` of all images is val (folder_val.py). A hash of the name
   decides which, so it is the same on every machine.
The option `splits` names other folders or lists, such as {"train": "training", "val": "v.txt"}.
Where the folder of a split comes first, as in train/images, `images` is "{split}/images", and
`masks` is "{split}/masks".
A split `test` exists in cases 1 and 2 only, and needs no masks. Images of other splits that have
no mask are left out.

Instead of two folders, `pairs` names a text file with an image and a mask on each line, relative
to the root, separated by a tab (or by a space, where names have none). If its name contains
{split}, as in "{split}.tsv", there is a file for each split. Otherwise case 3 applies.

What do the numbers in the masks mean? By default number i is class i, and 255 is void. With
`label_map` only the numbers in it are legal. With `colours` masks are read as RGB colours.
Without `classes`, a file labelmap.txt or classes.txt in the root names them (folder_masks.py).
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from reconet.data.dataset import DatasetEntry, DatasetInfo, FileDataset, Pair
from reconet.data.layout import (
    IMAGES,
    MASKS,
    contents,
    find_root,
    has_suffix,
    need_folder,
    read_lines,
)
from reconet.data.sets.folder_masks import (
    CLASSES,
    JPEG,
    LABEL_MAP,
    FolderOptions,
    mask_reader,
    palette_of,
    with_classes_of_root,
)
from reconet.data.sets.folder_val import divide_pairs
from reconet.errors import AbsentError, DataError
from reconet.system.user_cache import LABELS, cache_root, mark_in_use

SPLITS = ("train", "val", "test")
SPLIT = "{split}"


class Found(NamedTuple):
    """The files of a split, and those that have no partner."""

    pairs: Sequence[Pair]
    without_mask: tuple[str, ...] = ()
    without_image: tuple[str, ...] = ()


class Place(NamedTuple):
    """Where the images of a split are told: by a folder, a list, or neither."""

    folder: str = ""
    names: Path | None = None


def open_folder(root: Path, split: str, options: FolderOptions) -> FileDataset:
    read = _from_pairs if options.pairs else _from_folders
    title = options.title or root.absolute().name
    named = options.model_copy(update={"title": title})
    return dataset_of(split, named, read(root, split, options))


def dataset_of(split: str, options: FolderOptions, found: Found) -> FileDataset:
    """Return the dataset of these files, without those that the options exclude."""
    found = found._replace(
        pairs=[pair for pair in found.pairs if options.keeps(split, pair.name)],
        without_mask=tuple(name for name in found.without_mask if options.keeps(split, name)),
    )
    info = replace(
        FOLDER.info,
        classes=options.classes,
        palette=palette_of(options),
        title=options.title or FOLDER.info.title,
    )
    return FileDataset(
        info=info,
        split=split,
        read_label=mask_reader(options),
        upright=options.upright,
        **found._asdict(),
    )


def _from_folders(root: Path, split: str, options: FolderOptions) -> Found:
    home = _find_home(root, options)
    place = _place_of(split, home, options)
    images = need_folder(_inside(home, options.images, place))
    masks = _inside(home, options.masks, place)
    end = options.mask_suffix
    beside = end != "" and images.resolve() == masks.resolve()
    found = _by_name(images, IMAGES)
    found = {n: path for n, path in found.items() if not (beside and n.endswith(end))}
    names = sorted(found)
    if place.names is not None:
        names = [name_of(line) for line in read_lines(place.names)]
        absent = [name for name in names if name not in found]
        if absent:
            raise DataError(
                f"{len(absent)} of {len(names)} images of {place.names.name} are not in {images}, "
                f"such as {', '.join(absent[:3])}; there are {', '.join(list(found)[:3])}."
            )
    if split == "test":
        return Found([Pair(name, found[name], None) for name in names])
    if place.folder and masks.parent.is_dir() and not masks.is_dir():
        raise DataError(f"{images} has images, but there is no folder {masks}.")
    need_folder(masks, "" if masks.is_dir() else _hint(home))
    mask_of = _by_name(masks, (*MASKS, *JPEG))
    mask_of = {n: path for n, path in mask_of.items() if not beside or n.endswith(end)}
    pairs = [Pair(n, found[n], mask_of[n + end]) for n in names if n + end in mask_of]
    if not names or not mask_of:
        raise DataError(f"{images} holds no images beside masks of {end!r}.")
    if not pairs:
        one, other = min(names), min(mask_of)
        raise DataError(
            f"none of {len(names)} images has a mask in {masks}: for {one} expected {one}{end}, "
            f"found {other}. The option mask_suffix tells what masks add. {_hint(home)}"
        )
    paired = {pair.name for pair in pairs}
    alone = tuple(name for name in names if name not in paired)
    used = {name + end for name in found}
    orphans = tuple(name for name in mask_of if name not in used)
    if place == Place():
        pairs = divide_pairs(split, [p for p in pairs if options.keeps("", p.name)], options)
        alone = alone if split == "train" else ()  # they belong to neither
    return Found(pairs, alone, orphans)


def split_places(root: Path, options: FolderOptions) -> list[str]:
    """List the folders in that of the images, and the lists in the root: each may be a split."""
    try:
        home = _find_home(root, options)
    except DataError:
        return []
    lists = [path.name for path in home.glob("*.txt") if path.name not in (LABEL_MAP, CLASSES)]
    return [*_folders(home, options), *sorted(lists)]


def _folders(home: Path, options: FolderOptions) -> list[str]:
    parent = home / _before_split(options.images)
    entries = parent.iterdir() if parent.is_dir() else ()
    return sorted(path.name for path in entries if path.is_dir() and path.name[0] != ".")


def _find_home(root: Path, options: FolderOptions) -> Path:
    """Return the folder that holds that of the images."""
    expected = (_before_split(options.images) or ".") if root.is_dir() else options.images
    try:
        return find_root(root, FOLDER.info.title, (expected,))
    except DataError as error:
        if isinstance(error, AbsentError) or not root.is_dir():
            raise
        raise DataError(f"{error} {_hint(root)}") from error


def _hint(root: Path) -> str:
    return f"`reconet data inspect {root}` recognises other layouts."


def _before_split(folder: str) -> str:
    """Return the part of a path before {split}, or all of it."""
    return folder.partition(SPLIT)[0].rstrip("/")


def _inside(home: Path, folder: str, place: Place) -> Path:
    """Return the folder of a split's images or masks: {split} in it, or below it."""
    if SPLIT in folder:
        return home / folder.replace(SPLIT, place.folder)
    return home / folder / place.folder


def _place_of(split: str, home: Path, options: FolderOptions) -> Place:
    """Find out which folder or list tells the images of a split."""
    if options.splits:
        _check_has(split, list(options.splits), "data.options.splits has")
        place = options.splits[split]
        return Place(names=home / place) if place.endswith(".txt") else Place(folder=place)
    images, found = home / _before_split(options.images), _folders(home, options)
    folders = [name for name in SPLITS if name in found]
    if folders or SPLIT in options.images:
        _check_has(split, folders, f"{images} has the folders", found)
        return Place(folder=split)
    lists = [name for name in SPLITS if (home / f"{name}.txt").is_file()]
    if lists:
        _check_has(split, lists, f"{home} has lists for")
        return Place(names=home / f"{split}.txt")
    if split == "test":
        raise AbsentError(f"no test images: expected {images / 'test'} or {home / 'test.txt'}.")
    return Place()


def _check_has(split: str, known: Sequence[str], where: str, found: Sequence[str] = ()) -> None:
    """Raise an error that lists what there is, if a split is not known."""
    if split not in known:
        listed = ", ".join(found or known) or "nothing"
        raise AbsentError(
            f"no images for the split {split}: {where} {listed}. The option splits may name others."
        )


def _from_pairs(root: Path, split: str, options: FolderOptions) -> Found:
    file = options.pairs or ""
    path = root / file.replace(SPLIT, split)
    hint = ""
    if path.is_relative_to(cache_root().absolute() / LABELS):
        mark_in_use(path.parent)
        hint = f"Run `reconet data prepare {root}` to draw its masks again."
    pairs: dict[str, Pair] = {}
    for line in read_lines(path, hint):
        image, *mask = line.split("\t") if "\t" in line else line.split()
        if len(mask) != 1 and not (split == "test" and not mask):
            raise DataError(f"{path} takes an image and a mask, with a tab between; got {line!r}.")
        name = name_of(image)
        if name in pairs:
            raise DataError(f"{path} has the image {name} more than once.")
        pairs[name] = Pair(name, root / image, root / mask[0] if mask else None)
    if SPLIT in file:
        return Found(list(pairs.values()))
    if split == "test":
        raise AbsentError(f"{path} has no test images: use a file for each split, {{split}}.tsv.")
    kept = [pairs[name] for name in sorted(pairs) if options.keeps("", name)]
    return Found(divide_pairs(split, kept, options))


def _by_name(folder: Path, suffixes: Sequence[str]) -> dict[str, Path]:
    """Find the files under a folder, by name. Names must differ in more than the suffix.

    A JPEG among masks counts where there is no other of its name.
    """
    second = JPEG if suffixes[0] not in JPEG else ()
    found: dict[str, Path] = {}
    try:
        paths = sorted(folder.rglob("*"), key=lambda path: (has_suffix(path, second), path))
    except RecursionError as error:
        raise DataError(f"the folders in {folder} nest too deeply.") from error
    for path in paths:
        if has_suffix(path, suffixes):
            name = name_of(path.relative_to(folder).as_posix())
            if name in found and not has_suffix(path, second):
                raise DataError(f"{found[name]} and {path.name} have the same name.")
            found.setdefault(name, path)
    if not found:
        kinds = ", ".join(suffixes)
        raise DataError(f"no {kinds} files in {folder}; found {contents(folder)}.")
    return found


def name_of(file: str) -> str:
    """Strip the suffix of a relative path. é is one letter, however the disk spells it."""
    suffix = Path(file).suffix
    stem = file.removesuffix(suffix) if suffix.lower() in IMAGES + MASKS else file
    return normalize("NFC", stem)


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
    complete=with_classes_of_root,
    terms="images of who trained it, under terms that are theirs to state",
)
