"""Any value in a file or on the command line is accepted, or refused in one line."""

import json
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reconet.data.dataset import read_options
from reconet.data.images.draw import write_mask
from reconet.data.sets.folder_masks import FolderOptions, mask_reader
from reconet.errors import ReconetError
from reconet.recipes import (
    apply_overrides,
    dump_recipe,
    find_recipe,
    list_settings,
    validate_recipe,
)
from reconet.types import IGNORE

TINY = find_recipe("scenes/tiny")
KEYS = [name for name, _, _ in list_settings(TINY)]
# What JSON can hold, with the numbers, texts and depths that break careless readers.
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**63, -(2**63) - 1, 10**40, 0, -1])
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["\0", "\ud800", "NaN", "1e999", "0x10", "٣", "512x", "x", " "])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


def assert_one_line(error: ReconetError) -> None:
    assert "\n" not in str(error)


@given(st.lists(st.tuples(st.sampled_from(KEYS), VALUES), max_size=3))
@settings(max_examples=200, deadline=None)
def test_overrides_make_a_recipe_that_survives_writing_or_are_refused(
    changes: list[tuple[str, object]],
) -> None:
    try:
        changed = apply_overrides(TINY, [f"{key}={json.dumps(value)}" for key, value in changes])
    except ReconetError as error:
        assert_one_line(error)
        return
    values = json.loads(dump_recipe(changed))
    assert validate_recipe({k: v for k, v in values.items() if k != "format"}) == changed


@given(st.sampled_from(["data", "model", "loss", "optim", "train", "eval"]), VALUES)
@settings(max_examples=200, deadline=None)
def test_a_recipe_file_with_anything_in_a_group_is_read_or_refused(
    group: str, value: object
) -> None:
    values = json.loads(dump_recipe(TINY)) | {group: value}
    values.pop("format")
    try:
        validate_recipe(values)
    except ReconetError as error:
        assert_one_line(error)


@given(st.dictionaries(st.sampled_from([*FolderOptions.model_fields, "x"]), VALUES, max_size=4))
@settings(max_examples=200, deadline=None)
def test_options_of_a_folder_are_read_or_refused(options: dict[str, object]) -> None:
    try:
        mask_reader(read_options(FolderOptions, {"classes": ["a", "b"]} | options))
    except ReconetError as error:
        assert_one_line(error)


@given(
    st.dictionaries(st.integers(0, 255), st.sampled_from(["a", "b", "ignore", 0, 1, 255])),
    st.lists(st.integers(0, 255), min_size=1, max_size=6),
)
@settings(max_examples=60, deadline=None)
def test_a_label_map_means_what_it_says_and_nothing_else_passes(
    meanings: dict[int, object], numbers: list[int]
) -> None:
    # The expected labels come from the obvious loop over pixels.
    written = {str(number): meaning for number, meaning in meanings.items()}
    options = read_options(FolderOptions, {"classes": ["a", "b"], "label_map": written})
    known = {"a": 0, "b": 1, "ignore": IGNORE, 0: 0, 1: 1, 255: IGNORE}
    spelled = {n: known[meaning] for n, meaning in meanings.items()}
    expected = [({IGNORE: IGNORE} | spelled).get(number) for number in numbers]
    label_hw = np.empty(0, np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.png"
        write_mask(path, np.array([numbers], np.uint8), tuple((n, n, n) for n in range(256)))
        try:
            label_hw = mask_reader(options)(path)
        except ReconetError as error:
            assert_one_line(error)
    assert label_hw.flatten().tolist() == ([] if None in expected else expected)
