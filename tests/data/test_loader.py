"""Batches depend on the seed and the step, and on nothing about how they are made."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from reconet.data.dataset import DatasetInfo, Sample
from reconet.data.loader import Batch, OnError, Skipped, batches, need_shared_memory, samples
from reconet.data.order import AUGMENT, permutation, random_stream
from reconet.data.transforms import Augmentation, augment
from reconet.errors import DataError, MissingExtraError, RecipeError
from reconet.types import IGNORE, MEAN_COLOUR

AUGMENTATION = Augmentation(crop=(24, 32), base_size=40)
INFO = DatasetInfo(
    name="memory", title="", classes=("a", "b"), palette=((0, 0, 0), (9, 9, 9)), splits={}
)


@dataclass(frozen=True)
class Memory:
    """Images of noise in different sizes. Some of them are broken, in one way or another."""

    count: int = 11
    broken: tuple[int, ...] = ()
    fault: str = "data"
    info: DatasetInfo = INFO
    split: str = "train"

    def __len__(self) -> int:
        return self.count

    def name(self, index: int) -> str:
        return f"image {index}"

    def __getitem__(self, index: int) -> Sample:
        if index in self.broken:
            self.fail(index)
        rng = np.random.default_rng(index)
        height, width = rng.integers(20, 60, 2)
        image_hwc = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        label_hw = rng.integers(0, 2, (height, width), dtype=np.uint8)
        return Sample(self.name(index), image_hwc, label_hw)

    def fail(self, index: int) -> None:
        if self.fault == "data":
            raise DataError(f"cannot read /data/{index}.jpg: it is cut off.")
        if self.fault == "extra":
            raise MissingExtraError("data", "reading labels.mat")
        if self.fault == "death":
            os._exit(3)
        raise ZeroDivisionError("a bug in a dataset")


def load(dataset: Memory = Memory(), **changes: Any) -> list[Batch]:  # noqa: B008, it is frozen
    settings: dict[str, Any] = {"seed": 7, "batch": 4, "steps": 6, **changes}
    return list(batches(dataset, AUGMENTATION, **settings))


def assert_same(first: Iterable[Batch], second: Iterable[Batch]) -> None:
    for one, other in zip(first, second, strict=True):
        assert (one.step, one.names, one.skipped) == (other.step, other.names, other.skipped)
        assert torch.equal(one.image_bchw, other.image_bchw)
        assert torch.equal(one.label_bhw, other.label_bhw)


def test_a_batch_has_the_promised_shapes_and_types() -> None:
    for step, batch in enumerate(load()):
        assert batch.step == step
        assert batch.image_bchw.shape == (4, 3, 24, 32)
        assert batch.label_bhw.shape == (4, 24, 32)
        assert batch.image_bchw.dtype == batch.label_bhw.dtype == torch.uint8
        assert batch.image_bchw.is_contiguous(memory_format=torch.channels_last)
        assert len(batch.names) == 4


@pytest.mark.parametrize("workers", [0, 1])
def test_a_slot_holds_the_augmented_image(workers: int) -> None:
    order_n = permutation(11, seed=7, epoch=0)
    for batch in load(steps=2, workers=workers):
        for slot in range(4):
            sample = Memory()[int(order_n[4 * batch.step + slot])]
            crop = augment(sample, AUGMENTATION, random_stream(AUGMENT, 7, batch.step, slot))
            assert batch.names[slot] == crop.name
            assert np.array_equal(batch.image_bchw[slot].permute(1, 2, 0), crop.image_hwc)
            assert np.array_equal(batch.label_bhw[slot], crop.label_hw)


@pytest.mark.parametrize("workers", [1, 2])
def test_batches_do_not_depend_on_the_number_of_workers(workers: int) -> None:
    cv2.GaussianBlur(np.zeros((2000, 2000), np.uint8), (0, 0), 5)  # cv2's threads exist by now
    assert_same(load(workers=workers), load(workers=0))


@pytest.mark.parametrize("start", [1, 2, 5, 6])
@pytest.mark.parametrize("workers", [0, 1])
def test_starting_in_the_middle_gives_the_rest(start: int, workers: int) -> None:
    assert_same(load(start=start, workers=workers), load()[start:])


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_together_make_the_batches_of_one_slot_by_slot(processes: int) -> None:
    ranks = [load(rank=rank, processes=processes) for rank in range(processes)]
    for whole, *shares in zip(load(), *ranks, strict=True):
        assert whole.names == sum((share.names for share in shares), ())
        assert torch.equal(whole.image_bchw, torch.cat([share.image_bchw for share in shares]))
        assert torch.equal(whole.label_bhw, torch.cat([share.label_bhw for share in shares]))


def test_an_epoch_takes_no_image_twice_and_the_next_has_another_order() -> None:
    names = [batch.names for batch in load(Memory(12))]  # 3 steps per epoch, 6 steps
    first, second = sum(names[:3], ()), sum(names[3:], ())
    assert sorted(first) == sorted(second) == sorted(Memory().name(i) for i in range(12))
    assert first != second


@pytest.mark.parametrize("workers", [0, 1])
def test_loading_neither_uses_nor_moves_the_global_generators(workers: int) -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = load(workers=workers)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    assert_same(first, load(workers=workers))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_broken_image_names_itself_in_one_line(workers: int) -> None:
    with pytest.raises(DataError) as caught:
        load(Memory(broken=(3,)), workers=workers)
    assert str(caught.value) == "image 3: cannot read /data/3.jpg: it is cut off."


@pytest.mark.parametrize("workers", [0, 2])
def test_a_skipped_image_is_void_counted_and_moves_nothing_else(workers: int) -> None:
    sound, skipping = load(), load(Memory(broken=(3, 8)), on_error="skip", workers=workers)
    reported = 0
    for one, other in zip(sound, skipping, strict=True):
        assert one.names == other.names
        for slot, name in enumerate(one.names):
            if name in ("image 3", "image 8"):
                assert (other.label_bhw[slot] == IGNORE).all()
                assert (other.image_bchw[slot].permute(1, 2, 0) == torch.tensor(MEAN_COLOUR)).all()
                assert any(line.startswith(f"{name}: cannot read /data/") for line in other.skipped)
                reported += 1
            else:
                assert torch.equal(one.image_bchw[slot], other.image_bchw[slot])
    assert reported == sum(len(batch.skipped) for batch in skipping) > 0


@pytest.mark.parametrize("workers", [0, 1])
def test_a_missing_extra_is_never_skipped(workers: int) -> None:
    with pytest.raises(DataError, match=r"pip install '\.\[data\]' in the clone"):
        load(Memory(broken=(3,), fault="extra"), on_error="skip", workers=workers)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bug_in_a_dataset_stays_what_it_is(workers: int) -> None:
    with pytest.raises(ZeroDivisionError):
        load(Memory(broken=(3,), fault="bug"), workers=workers)


@pytest.mark.timeout(60)
def test_a_worker_that_dies_is_an_error_and_no_hang() -> None:
    with pytest.raises(DataError, match=r"worker process .* died.* data.workers=0"):
        load(Memory(broken=tuple(range(11)), fault="death"), workers=2)


def test_settings_that_do_not_fit_are_refused_at_once() -> None:
    with pytest.raises(RecipeError, match=r"train.batch=4 needs .* there are 3; try train.batch=3"):
        batches(Memory(3), AUGMENTATION, seed=0, batch=4, steps=1)
    with pytest.raises(RecipeError, match=r"train.batch=4 cannot be shared by 3 .*train.batch=3"):
        batches(Memory(), AUGMENTATION, seed=0, batch=4, steps=1, rank=0, processes=3)


def test_too_little_shared_memory_is_said_before_a_worker_starts() -> None:
    with pytest.raises(DataError, match=r"data.workers=2 needs .* MB of shared memory and / has"):
        need_shared_memory(10**18, 2, mount="/")
    need_shared_memory(10**18, 2, mount="/no such folder")


def test_a_batch_keeps_its_pixels_while_later_ones_are_made() -> None:
    kept = [
        (batch, batch.image_bchw.clone())
        for batch in batches(Memory(), AUGMENTATION, seed=7, batch=4, steps=20, workers=2)
    ]
    assert all(torch.equal(batch.image_bchw, image_bchw) for batch, image_bchw in kept)
    assert_same([batch for batch, _ in kept], load(steps=20))


def read_names(dataset: Memory, **changes: Any) -> list[str]:
    return [sample.name for sample in samples(dataset, **changes)]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_every_image_is_evaluated_exactly_once_and_in_order(workers: int, processes: int) -> None:
    shares = [
        read_names(Memory(), rank=rank, processes=processes, workers=workers)
        for rank in range(processes)
    ]
    names = [Memory().name(index) for index in range(11)]
    assert shares == [names[rank::processes] for rank in range(processes)]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_evaluation_names_a_broken_image_or_delivers_it_as_skipped(
    workers: int, on_error: OnError
) -> None:
    found = samples(Memory(5, broken=(2,)), workers=workers, on_error=on_error)
    if on_error == "raise":
        with pytest.raises(DataError, match="image 2: cannot read"):
            list(found)
    else:
        kinds = [type(item) for item in found]
        assert kinds == [Sample, Sample, Skipped, Sample, Sample]
