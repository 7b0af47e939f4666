"""What the three formats of masks share: where the files are, and what their values mean."""

from collections import Counter
from functools import lru_cache
from typing import Any

from reconet.data.formats.labelled import OwnData, stand_upright
from reconet.data.formats.mask_folders import Layout, find_layout
from reconet.data.formats.mask_values import (
    Values,
    collect_values,
    find_named,
    label_map_options,
    names_options,
    propose_colours,
    propose_numbers,
    propose_two,
    sample_values,
)
from reconet.data.formats.tree import Tree
from reconet.data.sets.folder_classes import CLASSES, LABEL_MAP
from reconet.errors import DataError
from reconet.system.progress import Progress
from reconet.system.readable import counted

UNNAMED = f"classes have no names: write them into {CLASSES}, one on each line, or --set them"
UNNAMED_COLOURS = (
    f"colours have no names: write them into {LABEL_MAP}, a line such as road:128,64,128:: for each"
)


def recognise_kind(tree: Tree, kind: str) -> str | None:
    """Return what tells that a folder holds masks of this kind."""
    layout = find_layout(tree)
    if layout is None or _sampled(tree).kind != kind:
        return None
    return f"{layout.folders}: {counted(len(layout.images), 'image')} with a mask"


def read_masks(tree: Tree, progress: Progress) -> OwnData:
    """Read which masks there are, and what their values mean."""
    layout = find_layout(tree)
    if layout is None:
        raise DataError(f"{tree.folder} has no images with masks of the same names.")
    options, notes = mask_options(tree, layout, progress)
    if layout.options is None:
        return OwnData(folder=tree.folder, images=layout.images, options=options, notes=notes)
    return OwnData(folder=tree.folder, options=options | layout.options, notes=notes)


def mask_options(
    tree: Tree, layout: Layout, progress: Progress
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return how masks are read: what their values mean, and whether photographs are turned."""
    _, upright = stand_upright(tree, layout.images)
    options, notes = _meaning(tree, layout, progress)
    return options | upright.options, (*notes, *upright.notes)


def _meaning(
    tree: Tree, layout: Layout, progress: Progress
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what the values in masks mean, from a file that tells it or from themselves."""
    listed = find_named(tree, LABEL_MAP)
    if listed is not None:
        return label_map_options(tree.folder / listed, _sampled(tree)), ()
    values = collect_values(_masks(layout), progress)
    if not values.pixels:
        raise DataError(values.error)
    if values.kind == "colour":
        return propose_colours(values.pixels, tree.folder), (UNNAMED_COLOURS,)
    if values.kind == "two":
        return propose_two(values.pixels), (UNNAMED,)
    named = names_options(tree, values.pixels)
    if named is not None:
        return named, ()
    return propose_numbers(values.pixels, tree.folder), (UNNAMED,)


@lru_cache(maxsize=4)  # each of the three formats asks
def _sampled(tree: Tree) -> Values:
    layout = find_layout(tree)
    values = sample_values([] if layout is None else _masks(layout))
    return values if values.pixels else Values(Counter({0: 1}), False, values.error)


def _masks(layout: Layout) -> list[Any]:
    return [one.labels for one in layout.images]
