"""A folder of black and white masks for each class.

    images/a.jpg    masks/road/a.png    masks/car/a.png
    images/a.jpg    road/a.png          car/a.png

White is inside. Where masks overlap, the smaller area is on top. Pixels in no mask are background.
Images without any mask are left out.
"""

from collections import defaultdict
from pathlib import Path

from reconet.data.dataset import evenly_spaced
from reconet.data.formats.draw import Part
from reconet.data.formats.label_studio import WhiteIn
from reconet.data.formats.mask_folders import find_layout, starred
from reconet.data.formats.masks import SAMPLED, black_and_white, collect
from reconet.data.formats.reading import Format, LabelledImage, OwnData, Reading, check_name
from reconet.data.formats.tree import IMAGE_FOLDERS, MASK_FOLDERS, Tree, split_of_folder, such_as
from reconet.data.images.read import read_frame
from reconet.data.layout import IMAGES, MASKS, has_suffix, split_called
from reconet.system.progress import SILENT, Progress

Parts = tuple[str, ...]
SEVERAL = 2  # folders that make a layout, and masks that some image has
TWO_VALUES = {0, 1, 255, 0xFFFFFF}


def _find(tree: Tree) -> dict[Path, dict[str, Path]]:
    """Return the mask of each class, of each image. Their folders stand side by side."""
    images: dict[Parts, dict[str, Path]] = defaultdict(dict)  # by what belongs together
    for folder, files in tree.folders.items():
        parts = folder.parts
        if not starred(parts, MASK_FOLDERS):
            for key in [*starred(parts, IMAGE_FOLDERS), ("*", *parts)]:
                images[key] |= {path.stem: path for path in files if has_suffix(path, IMAGES)}
    found: dict[Path, dict[str, Path]] = defaultdict(dict)
    for folder, files in tree.folders.items():
        name, parts = folder.name.lower(), folder.parent.parts
        if not name or name in (*IMAGE_FOLDERS, *MASK_FOLDERS) or split_called(name):
            continue
        for path in files:
            for key in [*starred(parts, MASK_FOLDERS), (*parts, "*")]:
                image = images.get(key, {}).get(path.stem)
                if image is not None and image != path and has_suffix(path, MASKS):
                    found[image].setdefault(folder.name, path)
    several = any(len(masks) >= SEVERAL for masks in found.values())
    return dict(found) if several else {}


def recognise(tree: Tree) -> str | None:
    """Look for folders of black and white masks whose names are those of images."""
    found = _find(tree) if find_layout(tree) is None else {}
    masks = [path for one in found.values() for path in one.values()]
    some = [masks[index] for index in evenly_spaced(len(masks), SAMPLED)]
    values = collect([LabelledImage(path, tree.folder / path) for path in some]).pixels
    if not values or not (values.keys() <= TWO_VALUES or black_and_white(values)):
        return None
    names = sorted({name for one in found.values() for name in one})
    return f"folders of black and white masks: {such_as(names, 6)}"


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read which masks each image has."""
    every, found = _find(tree), Reading(tree, smaller_on_top=True)
    for image, masks in sorted(every.items()):
        first, split = next(iter(masks.values())), split_of_folder(image)
        parts = [
            Part(check_name(name), WhiteIn(tree.folder / path), str(path))
            for name, path in sorted(masks.items())
        ]
        found.add(image, first, read_frame(tree.folder / first).stored, parts, split)
    for image in sorted(tree.image_set - every.keys()):
        if not any(image in masks.values() for masks in every.values()):
            found.leave_out("images without a mask", image)
    return found.result([Path()])


CLASS_FOLDERS = Format("a folder of black and white masks for each class", recognise, read)
