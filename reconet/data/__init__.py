"""Datasets: images and labels, by name.

registry.py      every dataset by name; open_dataset() is the door
sets/            one file per dataset
scenes/          the built-in dataset: generated images in which context decides
prepare/         conversions that some datasets need, once
images/          read, write and draw images
dataset.py       what a dataset is to the rest of the package
labels.py        from the values in a mask to class numbers
layout.py        find files in the folder of a dataset
names.py         class names and palettes that datasets share
options.py       check the options of one dataset
transforms.py    random scale, crop and flip
order.py         which image goes where, as a function of (seed, step)
loader.py        batches, read and augmented by worker processes
check.py         look for mistakes in a dataset before a training does
check_report.py  what the check found, as text and JSON
parallel.py      one function over many items, in several processes
"""

from reconet.data.registry import DATASETS, dataset_root, open_dataset, open_split, prepare_dataset

__all__ = ["DATASETS", "dataset_root", "open_dataset", "open_split", "prepare_dataset"]
