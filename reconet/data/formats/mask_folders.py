"""Find images and masks that belong together, by the names of folders and files.

    images/a.jpg        masks/a.png          also imgs, JPEGImages, labels, annotations, gt, ...
    images/val/a.jpg    masks/val/a.png
    val/images/a.jpg    val/masks/a.png
    val/a.jpg           val_masks/a.png
    val/a.jpg           val/a_mask.png
    leftImg8bit/val/ulm/a_leftImg8bit.png     gtFine/val/ulm/a_gtFine_labelIds.png
    images/a.jpg        annotations/trimaps/a.png

The name of a mask may add something to that of its image, the same for all.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from reconet.data.formats.reading import LabelledImage
from reconet.data.formats.tree import IMAGE_FOLDERS, MASK_FOLDERS, Tree, split_of_folder
from reconet.data.layout import IMAGES, MASKS, has_suffix, split_called

MASKS_ADD = re.compile(r"(.+?)[_-]?(annot|annotations|labels?|masks?|gt)", re.I)
IMAGES_ADD = re.compile(r"[_-]?(images?|imgs?)$", re.I)
MASK_ENDS = (
    "_mask", "_masks", "-mask", "_label", "_labels", "_gt", "_seg", "_1stHO", "_2ndHO", "_manual1",
)  # fmt: skip
IMAGE_ENDS = ("_leftImg8bit", "_sat", "_image", "_img", "_rgb", "_training", "_test")
BETTER, WORSE = ("labeltrainids", "labelids"), ("color", "colour", "instance", "2nd")  # of masks
JPEG = (".jpg", ".jpeg")
FEWEST = 0.1  # of the images of a folder that must have a mask in another
Parts = tuple[str, ...]


class Layout(NamedTuple):
    """Images with their masks, and options by which the dataset `folder` finds them itself."""

    images: list[LabelledImage]
    options: dict[str, Any] | None
    folders: str  # for people


@lru_cache(maxsize=4)
def find_layout(tree: Tree) -> Layout | None:
    """Find images and masks, or return None."""
    found: list[LabelledImage] = []
    kept: list[tuple[Path, Path, str | None]] = []
    for images, masks in _pairs_of_folders(tree).items():
        suffix, some = _match(tree.folders[images], tree.folders[masks], same=images == masks)
        if some:
            kept.append((images, masks, suffix))
            found += [LabelledImage(i, tree.folder / m, split_of_folder(i)) for i, m in some]
    if not found:
        return None
    told = " and ".join(f"{folder}/" for folder in dict.fromkeys(kept[0][:2]))
    more = f", and {len(kept) - 1} more" if len(kept) > 1 else ""
    one = found[0].labels
    such = f", masks such as {one.name}" if isinstance(one, Path) and kept[0][2] != "" else ""
    return Layout(found, _options(kept), told + more + such)


def _pairs_of_folders(tree: Tree) -> dict[Path, Path]:
    """Return which folder may hold the masks of each folder of images."""
    with_images, with_masks = (
        [
            folder
            for folder, files in tree.folders.items()
            if any(has_suffix(file, suffixes) for file in files)
        ]
        for suffixes in (IMAGES, (*MASKS, *JPEG))
    )
    masks: dict[Parts, list[Path]] = defaultdict(list)  # by what belongs together
    for folder in with_masks:
        added = MASKS_ADD.fullmatch(folder.name)
        same = [(*folder.parts[:-1], added[1])] if added else []
        for key in starred(folder.parts, MASK_FOLDERS) + same:
            masks[key].append(folder)
    pairs: dict[Path, Path] = {}
    for folder in with_images:
        parts = folder.parts
        if starred(parts, MASK_FOLDERS):
            continue
        keys = starred(parts, IMAGE_FOLDERS)
        if parts:
            keys += [parts, (*parts[:-1], IMAGES_ADD.sub("", parts[-1]))]
        others = [[one for one in masks[key] if one != folder] for key in [*keys, ("*", *parts)]]
        best = next(filter(None, others), None)
        if best:
            pairs[folder] = min(best, key=_preference)
        elif any(file.stem.endswith(MASK_ENDS) for file in tree.folders[folder]):
            pairs[folder] = folder
    return pairs


def starred(parts: Parts, words: Sequence[str]) -> list[Parts]:
    """Return a path with a star for each part that is one of these words, or for a row of them."""
    places = [index for index, part in enumerate(parts) if part.lower() in words]
    found = [(*parts[:index], "*", *parts[index + 1 :]) for index in places]
    if len(places) > 1 and places[-1] - places[0] == len(places) - 1:
        found.append((*parts[: places[0]], "*", *parts[places[-1] + 1 :]))
    return found


def _preference(folder: Path) -> int:
    places = [MASK_FOLDERS.index(p.lower()) for p in folder.parts if p.lower() in MASK_FOLDERS]
    return min(places, default=len(MASK_FOLDERS))


def _match(
    images: Sequence[Path], masks: Sequence[Path], *, same: bool
) -> tuple[str | None, list[tuple[Path, Path]]]:
    """Match files by name, with the ending of masks that fits most images, if it fits enough.

    Return that ending, or None if images have an ending of their own.
    """
    mask_of: dict[str, Path] = {}
    for path in sorted(masks, key=lambda path: has_suffix(path, JPEG)):
        if has_suffix(path, (*MASKS, *JPEG)):
            mask_of.setdefault(path.stem, path)
    whole = [
        (path.stem, path)
        for path in images
        if has_suffix(path, IMAGES) and not (same and path.stem.endswith(MASK_ENDS))
    ]
    for names in (whole, [(_without_end(stem), path) for stem, path in whole]):
        ends: Sequence[str] = MASK_ENDS if same else ("",)
        if not same and not any(stem in mask_of for stem, _ in names):
            longer = (
                name[len(stem) :]
                for stem, _ in names[:20]
                for name in mask_of
                if name.startswith(stem)
            )
            ends = [end for end, _ in Counter(longer).most_common(8)]
        fits = {
            end: [(path, mask_of[n + end]) for n, path in names if n + end in mask_of]
            for end in ends
        }
        best = max(fits, key=lambda end: (len(fits[end]), -_rank(end)), default="")
        if best in fits and len(fits[best]) >= max(1, FEWEST * len(names)):
            return best if names is whole else None, fits[best]
    return "", []


def _without_end(stem: str) -> str:
    return next((stem.removesuffix(end) for end in IMAGE_ENDS if stem.endswith(end)), stem)


def _rank(end: str) -> int:
    """Return 0 for the ending of the best masks, and more for others of the same images."""
    told = end.lower()
    better = [place for place, word in enumerate(BETTER) if told.endswith(word)]
    return better[0] if better else 3 if any(word in told for word in WORSE) else 2


def _options(kept: Sequence[tuple[Path, Path, str | None]]) -> dict[str, Any] | None:
    """Say where the files are by options of `folder`, if they are in two folders of the root."""
    places = {(i.parts[:1], m.parts[:1], suffix) for i, m, suffix in kept}
    (image, mask, suffix), *others = places
    if others or not image or not mask or image == mask or suffix is None:
        return None
    if any(i.parts[1:] != m.parts[1:] for i, m, _ in kept):
        return None
    options: dict[str, Any] = {"images": image[0], "masks": mask[0], "mask_suffix": suffix}
    subfolders = {i.parts[1] for i, *_ in kept if len(i.parts) > 1}
    splits = {split_called(name): name for name in subfolders if split_called(name)}
    if splits and not {"train", "val"} <= set(splits):
        return None  # a list of pairs can split them
    if splits and len(splits) == len(subfolders) and any(a != b for a, b in splits.items()):
        options["splits"] = splits
    defaults = {"images": "images", "masks": "masks", "mask_suffix": ""}
    return {key: value for key, value in options.items() if defaults.get(key) != value}
