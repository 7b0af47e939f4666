"""Datasets: images and labels, by name.

registry.py      DATASETS, the table of all datasets; open_dataset() and prepare_dataset()
sets/            one file per dataset, with all that is known about it
scenes/          the built-in dataset: generated images in which context decides
prepare.py       what conversions share
formats/         labels of people's own images: COCO, YOLO, labelme, CVAT, Label Studio, masks
images/          read, write and draw images
dataset.py       DatasetEntry, the declaration of a dataset; Dataset, Sample: one that is open
labels.py        from the numbers in masks to labels
layout.py        find files in the folder of a dataset
classes.py       class names from text, and colours for classes
dataset_file.py  one file, mine.yaml, that describes your own images
transforms.py    augment: random scale, mirror and crop
changes.py       augment further: colours, blur, noise, turns, rotation, erasing
class_counts.py  count the pixels of each class
order.py         which image goes where, as a function of (seed, step)
loader.py        batches, read and augmented by worker processes
check/           look for mistakes in a dataset before a training does
parallel.py      one function over many items, in several processes
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from reconet.data.dataset import (
    Dataset,
    DatasetEntry,
    DatasetInfo,
    Sample,
    evenly_spaced,
    has_labels,
)

if TYPE_CHECKING:
    from reconet.data.registry import (
        DATASETS,
        complete_recipe,
        dataset_root,
        open_dataset,
        open_split,
        prepare_dataset,
    )

__all__ = [
    "DATASETS",
    "Dataset",
    "DatasetEntry",
    "DatasetInfo",
    "Sample",
    "complete_recipe",
    "dataset_root",
    "evenly_spaced",
    "has_labels",
    "open_dataset",
    "open_split",
    "prepare_dataset",
]


def __getattr__(name: str) -> Any:
    """Import the table of all datasets when it is first used: a prediction needs none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.registry"), name)
