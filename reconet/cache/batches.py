"""Batches of cached features, as a pure function of (seed, step), like batches of images.

Which image stands in which slot is the order of data/order.py. In epoch e an image shows its view
e modulo the number of views.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from reconet.cache.store import Store, StoreGroup
from reconet.data.order import BatchOrder, steps_per_epoch
from reconet.models.features import Features


class FeatureBatch(NamedTuple):
    """One process's share of a step."""

    step: int
    inputs: Features  # fp16; stages that were not cached are empty
    label_bhw: Tensor  # uint8
    names: tuple[str, ...]
    skipped: tuple[str, ...] = ()


def feature_batches(
    store: Store | StoreGroup, order: BatchOrder, names: list[str]
) -> Iterator[FeatureBatch]:
    """Read the batches of an order; the store holds views of `names`, one image after another."""
    views = store.count // len(names)
    in_epoch = steps_per_epoch(len(names), order.batch)
    for slots in order:
        view = slots[0].step // in_epoch % views
        entries = [store.read(slot.image * views + view) for slot in slots]
        stacked = {
            part: torch.from_numpy(np.stack([entry[part] for entry in entries]))
            for part in entries[0]
        }
        label_bhw = stacked.pop("label")
        yield FeatureBatch(
            step=slots[0].step,
            inputs=as_features(stacked),
            label_bhw=label_bhw,
            names=tuple(names[slot.image] for slot in slots),
        )


def as_features(stages: dict[str, Tensor]) -> Features:
    """Make features of the stages that are there; the others are empty."""
    return Features(*(stages.get(name, torch.empty(0)) for name in Features._fields))
