"""Images that nobody has divided are divided into train and val, on every machine alike."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconet.data.sets.folder_masks import FolderOptions
from reconet.data.sets.folder_val import images_of, keep_classes
from reconet.recipes import find_recipe
from tests.data.sets.helpers import LABEL, names_of, opened, write_flat


@given(
    names=st.lists(st.text(min_size=1), min_size=2, max_size=30, unique=True),
    fraction=st.floats(0.01, 0.99),
)
def test_a_fraction_splits_into_two_parts_of_which_none_is_empty(
    names: list[str], fraction: float
) -> None:
    train, val = (images_of(split, names, fraction) for split in ("train", "val"))
    assert train
    assert val
    assert sorted(train + val) == sorted(names)
    again = images_of("val", names[::-1], fraction)
    assert sorted(again) == sorted(val), "the order of the images must not matter"


def test_val_keeps_every_class_of_two_images_if_it_can(tmp_path: Path) -> None:
    names = [f"p{number:02}" for number in range(30)]
    write_flat(tmp_path, names, np.zeros_like(LABEL))
    by_hash = set(names_of(opened(tmp_path, "val")))
    in_train = [name for name in names if name not in by_hash]
    for label, some in {1: in_train[:2], 2: sorted(by_hash)[:2]}.items():
        for name in some:  # 1 is in train alone, and 2 in val alone
            write_flat(tmp_path, [name], np.where(LABEL == 1, label, 0).astype(np.uint8))
    write_flat(tmp_path, [in_train[-1]], np.full_like(LABEL, 255))
    parts = {}
    for split in ("train", "val"):
        dataset = opened(tmp_path, split, val_choice="classes")
        parts[split] = names_of(dataset)
        seen = {int(x) for i in range(len(dataset)) for x in np.unique(dataset[i].label_hw)}
        assert seen >= {0, 1, 2}, split
    assert sorted(parts["train"] + parts["val"]) == names
    assert len(by_hash ^ set(parts["val"])) == 2, "no image moves that does not have to"


@given(
    classes=st.dictionaries(
        st.text("abcdefgh", min_size=1, max_size=3),
        st.frozensets(st.integers(0, 5), max_size=3),
        min_size=2,
        max_size=12,
    ),
    data=st.data(),
)
def test_moving_images_never_leaves_more_classes_in_one_part_alone(
    classes: dict[str, frozenset[int]], data: st.DataObject
) -> None:
    val = data.draw(st.sets(st.sampled_from(sorted(classes)), min_size=1))

    def in_both(part: set[str]) -> int:
        inside = {label for name in part for label in classes[name]}
        outside = {label for name in classes.keys() - part for label in classes[name]}
        return len(inside & outside)

    after = keep_classes(val, classes)
    assert in_both(after) >= in_both(val)
    assert after == keep_classes(set(val), dict(reversed(classes.items())))


def test_new_datasets_keep_classes_and_recipes_of_older_runs_their_split() -> None:
    assert find_recipe("folder/reconet").data.options == {"val_choice": "classes"}
    assert FolderOptions(classes=("a",)).val_choice == "hash"


@pytest.mark.parametrize("choice", ["images", "classes"])
def test_equal_images_are_on_one_side_of_the_split(tmp_path: Path, choice: str) -> None:
    names = [f"{letter}{copy}" for letter in "abcdefgh" for copy in range(3)]
    write_flat(tmp_path, names)
    for name in names:
        (tmp_path / f"images/{name}.jpg").write_bytes(
            (tmp_path / f"images/{name[0]}0.jpg").read_bytes()
        )
    sides = {
        split: {name[0] for name in names_of(opened(tmp_path, split, val_choice=choice))}
        for split in ("train", "val")
    }
    assert sides["train"] | sides["val"] == set("abcdefgh")
    assert not sides["train"] & sides["val"]
    hashed = {
        split: {name[0] for name in names_of(opened(tmp_path, split))} for split in ("train", "val")
    }
    assert hashed["train"] & hashed["val"]  # as older runs were split


def test_excluded_images_are_in_neither_part(tmp_path: Path) -> None:
    write_flat(tmp_path, list("abcdef"))
    some = {
        n for split in ("train", "val") for n in names_of(opened(tmp_path, split, exclude=["b"]))
    }
    assert some == set("acdef")
    train = names_of(opened(tmp_path, "train"))
    assert names_of(opened(tmp_path, "train", exclude=[f"train/{train[0]}"])) == train[1:]
