"""Entries of the cache: what they are made from, who computes them, and what names them."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from reconet.cache import WholeImages, fill
from reconet.data import open_dataset
from reconet.errors import DataError
from tests.cache.helpers import CLASSES, network, open_list, opened, views_of, wanted
from tests.engine.steps import ALONE, Processes


def test_a_view_is_a_function_of_seed_image_and_view(tree: Path) -> None:
    train, val = views_of(open_list(tree, "train")), views_of(open_list(tree, "val"))
    b_first_in_train, b_first_in_val = train[2][0], val[0][0]
    assert torch.equal(b_first_in_train, b_first_in_val)
    assert not torch.equal(train[2][0], train[3][0])
    assert not torch.equal(train[2][0], views_of(open_list(tree, "train"), seed=1)[2][0])
    more = views_of(open_list(tree, "train"), views=5)
    assert torch.equal(train[3][0], more[6][0])


def test_entries_are_the_features_of_their_views(tree: Path) -> None:
    source = views_of(open_list(tree, "train"))
    store = opened(source)
    expected = [network().trunk(source[index][0]).c4[0].detach() for index in range(4)]
    for index in range(4):
        got_chw = torch.from_numpy(store.read(index).astype(np.float32))
        torch.testing.assert_close(got_chw, expected[index], rtol=2e-3, atol=2e-3)
    bf16 = replace(wanted(source, "bf16"), precision="bf16")
    bf16.store.create({})
    fill(bf16, network(), ALONE, workers=0)
    for index in range(4):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            expected_chw = network().trunk(source[index][0]).c4[0].float()
        got_chw = torch.from_numpy(bf16.store.read(index).astype(np.float32))
        error = (got_chw - expected_chw).norm() / expected_chw.norm()
        assert error < 0.02  # bf16 has 8 bits, and batch norm is folded here
        assert not np.array_equal(bf16.store.read(index), store.read(index))


def test_an_entry_of_labels_is_the_mask_of_its_view(tree: Path) -> None:
    source = views_of(open_list(tree, "train"), labels=True)
    store = opened(source)
    for index in range(4):
        assert np.array_equal(store.read(index), source[index][1])


def test_a_corrected_mask_changes_its_labels_and_no_feature(tree: Path) -> None:
    """Check it with a mask whose file keeps its size, as most corrected PNGs do."""
    path = tree / "masks/b.png"

    def identities() -> tuple[list[str], list[str]]:
        source = views_of(open_list(tree, "train"))
        kinds = (source, replace(source, labels=True))
        features, labels = ([one.identity(i) for i in range(4)] for one in kinds)
        return features, labels

    Image.fromarray(np.zeros((40, 56), np.uint8)).save(path, compress_level=0)
    (features, labels), size = identities(), path.stat().st_size
    Image.fromarray(np.ones((40, 56), np.uint8)).save(path, compress_level=0)
    assert path.stat().st_size == size
    features_after, labels_after = identities()
    assert features_after == features
    assert [a == b for a, b in zip(labels, labels_after, strict=True)] == [True, True, False, False]


def test_an_image_that_changed_is_another_whatever_its_size_and_time(tree: Path) -> None:
    path = tree / "images/b.bmp"
    (tree / "images/b.png").unlink()
    Image.fromarray(np.zeros((40, 56, 3), np.uint8)).save(path)
    before, time = views_of(open_list(tree, "train")), path.stat().st_mtime
    other = tree.with_name("other")
    shutil.copytree(tree, other)
    Image.fromarray(np.full((40, 56, 3), 255, np.uint8)).save(other / "images/b.bmp")
    os.utime(other / "images/b.bmp", (time, time))
    after = views_of(open_list(other, "train"))
    same = [before.identity(i) == after.identity(i) for i in range(4)]
    assert same == [True, True, False, False]
    turned = views_of(open_dataset("folder", "train", tree, {**CLASSES, "upright": True}))
    assert turned.identity(0) != before.identity(0)


def test_a_broken_image_is_named_and_the_rest_is_kept(tree: Path) -> None:
    (tree / "images/b.png").write_bytes(b"no image")
    source = views_of(open_list(tree, "train"))
    with pytest.raises(DataError, match=r"b\.png"):
        opened(source)
    assert wanted(source).store.missing() == [2, 3]


def test_whole_images_keep_their_proportions(tree: Path) -> None:
    source = WholeImages(dataset=open_list(tree, "val"), base_size=48)
    assert source[0][0].shape == (1, 3, 34, 48)


def test_filling_goes_on_where_a_kill_stopped_it_and_by_many_processes(
    tree: Path, tmp_path: Path
) -> None:
    source, model = views_of(open_list(tree, "train"), views=40), network()
    straight, killed, many = (wanted(source, name) for name in ("straight", "killed", "many"))
    for one in (straight, killed, many):
        one.store.create({})
    fill(straight, model, ALONE, workers=0)
    fill(many, model, ALONE, workers=2)
    program = (
        "import sys, pickle; from reconet.cache import fill\n"
        "fill(*pickle.load(open(sys.argv[1], 'rb')), workers=0)"
    )
    work = tmp_path / "work.pkl"
    work.write_bytes(pickle.dumps((killed, model, ALONE)))
    process = subprocess.Popen([sys.executable, "-c", program, str(work)])
    while len(killed.store.missing()) > 60:
        time.sleep(0.001)
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert 0 < len(killed.store.missing()) <= 60
    fill(killed, model, ALONE, workers=0)
    for name in ("c4.bin", "shapes.bin", "checksums.bin"):
        contents = {(one.store.directory / name).read_bytes() for one in (straight, killed, many)}
        assert len(contents) == 1


def test_processes_that_look_at_different_moments_leave_no_entry_out(tree: Path) -> None:
    one, model = wanted(views_of(open_list(tree, "train"), views=4)), network()
    one.store.create({})
    for rank, missing in ((0, [1, 3, 5, 7]), (1, [])):  # the second looks only when one is done
        fill(one, model, Processes(rank=rank, size=2, device=ALONE.device), workers=0)
        assert one.store.missing() == missing


def test_a_store_that_stays_incomplete_is_an_error(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconet.cache.build.EntryWriter.__call__", lambda self, index: index)
    with pytest.raises(DataError, match="still lacks 4 entries"):
        opened(views_of(open_list(tree, "train")))
