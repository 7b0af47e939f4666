import pytest

from reconet.data.dataset import DatasetInfo, evenly_spaced
from reconet.errors import DataError


def test_a_dataset_with_more_classes_than_labels_can_hold_is_refused() -> None:
    def info(count: int) -> DatasetInfo:
        names = tuple(f"class {k}" for k in range(count))
        return DatasetInfo(name="many", title="", classes=names, palette=(), splits={})

    assert len(info(254).classes) == 254
    with pytest.raises(DataError, match=r"many has 255 classes, and .* at most 254\. Join rare"):
        info(255)


def test_evenly_spaced_indices_run_from_the_first_to_the_last() -> None:
    assert evenly_spaced(100, 3) == [0, 49, 99]
    assert evenly_spaced(2, 64) == [0, 1]
    assert evenly_spaced(7, 1) == [0]
    assert evenly_spaced(0, 4) == []
