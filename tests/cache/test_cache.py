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

from reconet.cache import Store, WholeImages
from reconet.cache.build import EntryWriter, Pace, fill
from reconet.data import open_dataset
from reconet.errors import DataError
from reconet.system.user_cache import cache_root
from tests.cache.helpers import CLASSES, PARTS, open_list, opened, views_of
from tests.factories import tiny_model


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
    store, labels = opened(source), opened(replace(source, labels=True))
    torch.manual_seed(0)
    model = tiny_model("fcn", crop=(32, 48)).eval()
    for index in range(4):
        image_bchw, label_hw = source[index]
        with torch.no_grad():
            expected_chw = model.trunk(image_bchw).c4[0]
        assert np.array_equal(labels.read(index)["label"], label_hw)
        got_chw = torch.from_numpy(store.read(index)["c4"].astype(np.float32))
        torch.testing.assert_close(got_chw, expected_chw, rtol=2e-3, atol=2e-3)


def test_features_in_bf16_are_those_of_a_training_in_bf16(tree: Path) -> None:
    source = views_of(open_list(tree, "train"))
    usual, store = opened(source), opened(source, precision="bf16")
    assert store.directory != usual.directory
    torch.manual_seed(0)
    model = tiny_model("fcn", crop=(32, 48)).eval()
    for index in range(4):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            expected_chw = model.trunk(source[index][0]).c4[0].float()
        got_chw = torch.from_numpy(store.read(index)["c4"].astype(np.float32))
        error = (got_chw - expected_chw).norm() / expected_chw.norm()
        assert error < 0.02  # bf16 has 8 bits, and batch norm is folded here
        assert not np.array_equal(store.read(index)["c4"], usual.read(index)["c4"])


def test_splits_that_share_images_share_features(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(views_of(open_list(tree, "train")))
    computed: list[int] = []
    write = EntryWriter.__call__

    def count(self: EntryWriter, index: int) -> int:
        computed.append(index)
        return write(self, index)

    monkeypatch.setattr(EntryWriter, "__call__", count)
    opened(views_of(open_list(tree, "val")))
    assert computed == [2, 3]  # the views of c: those of b were there


def test_a_corrected_mask_changes_its_labels_and_no_feature(tree: Path) -> None:
    """Check it with a mask whose file keeps its size, as most corrected PNGs do."""
    path = tree / "masks/b.png"
    Image.fromarray(np.zeros((40, 56), np.uint8)).save(path, compress_level=0)
    features = opened(views_of(open_list(tree, "train"))).directory
    before = opened(views_of(open_list(tree, "train"), labels=True))
    size = path.stat().st_size
    Image.fromarray(np.ones((40, 56), np.uint8)).save(path, compress_level=0)
    assert path.stat().st_size == size
    assert opened(views_of(open_list(tree, "train"))).directory == features
    after = opened(views_of(open_list(tree, "train"), labels=True))
    for index in range(4):
        old_hw, new_hw = before.read(index)["label"], after.read(index)["label"]
        assert np.array_equal(new_hw, np.where(old_hw == 0, 1, old_hw) if index > 1 else old_hw)


def test_an_image_that_changed_finds_other_features_whatever_its_size_and_time(
    tree: Path,
) -> None:
    path = tree / "images/b.bmp"
    (tree / "images/b.png").unlink()
    Image.fromarray(np.zeros((40, 56, 3), np.uint8)).save(path)
    before, time = opened(views_of(open_list(tree, "train"))), path.stat().st_mtime
    other = tree.with_name("other")
    shutil.copytree(tree, other)
    Image.fromarray(np.full((40, 56, 3), 255, np.uint8)).save(other / "images/b.bmp")
    os.utime(other / "images/b.bmp", (time, time))
    after = opened(views_of(open_list(other, "train")))
    same = [np.array_equal(before.read(i)["c4"], after.read(i)["c4"]) for i in range(4)]
    assert same == [True, True, False, False]


def test_images_that_are_turned_upright_are_other_images(tree: Path) -> None:
    plain = views_of(open_list(tree, "train"))
    turned = views_of(open_dataset("folder", "train", tree, {**CLASSES, "upright": True}))
    assert plain.identity(0) != turned.identity(0)


def test_a_broken_image_is_named_and_the_rest_is_kept(tree: Path) -> None:
    (tree / "images/b.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"b\.png"):
        opened(views_of(open_list(tree, "train")))
    stores = list((cache_root() / "features").glob("*/*/checksums.bin"))
    kept = np.frombuffer(stores[0].read_bytes(), np.uint32)
    assert (kept[:2] != 0).all()


def test_the_time_is_told_once_and_without_the_start_of_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([30.0, 31.0, 33.0, 36.0, 39.0, 42.0])  # two processes take half a minute to start
    monkeypatch.setattr("reconet.cache.build.time.monotonic", lambda: next(clock))
    pace = Pace(100, workers=2)
    told = [pace.estimate() for _ in range(6)]
    assert told == [None, None, None, "4 min", None, None]  # 5 s for two entries, 96 are left


def test_whole_images_keep_their_proportions(tree: Path) -> None:
    source = WholeImages(dataset=open_list(tree, "val"), base_size=48)
    assert source[0][0].shape == (1, 3, 34, 48)


def test_filling_goes_on_where_a_kill_stopped_it(tree: Path, tmp_path: Path) -> None:
    source = views_of(open_list(tree, "train"), views=40)
    torch.manual_seed(0)
    model = tiny_model("fcn", crop=(32, 48)).eval()
    straight = Store(tmp_path / "straight", len(source), PARTS)
    straight.create({})
    fill(straight, source, model, workers=0)
    killed = Store(tmp_path / "killed", len(source), PARTS)
    killed.create({})
    program = (
        "import sys, pickle; store, source, model = pickle.load(open(sys.argv[1], 'rb'))\n"
        "from reconet.cache.build import fill\nfill(store, source, model, workers=0)"
    )
    work = tmp_path / "work.pkl"
    work.write_bytes(pickle.dumps((killed, source, model)))
    process = subprocess.Popen([sys.executable, "-c", program, str(work)])
    while len(Store(killed.directory, killed.count, PARTS).missing()) > 60:
        time.sleep(0.001)
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    left = Store(killed.directory, killed.count, PARTS)
    assert 0 < len(left.missing()) <= 60
    fill(left, source, model, workers=0)
    for name in ("c4.bin", "shapes.bin", "checksums.bin"):
        assert (straight.directory / name).read_bytes() == (left.directory / name).read_bytes()


def test_many_processes_fill_the_same_store(tree: Path, tmp_path: Path) -> None:
    source = views_of(open_list(tree, "train"), views=40)
    torch.manual_seed(0)
    model = tiny_model("fcn", crop=(32, 48)).eval()
    contents = []
    for workers in (0, 2):
        store = Store(tmp_path / str(workers), len(source), PARTS)
        store.create({})
        fill(store, source, model, workers=workers)
        assert store.missing() == []
        contents.append((store.directory / "c4.bin").read_bytes())
    assert contents[0] == contents[1]


def test_processes_that_look_at_different_moments_leave_no_entry_out(
    tree: Path, tmp_path: Path
) -> None:
    source = views_of(open_list(tree, "train"), views=4)
    store = Store(tmp_path / "store", len(source), PARTS)
    store.create({})
    model = tiny_model("fcn", crop=(32, 48)).eval()
    fill(store, source, model, workers=0, rank=0, size=2)
    assert store.missing() == [1, 3, 5, 7]
    fill(store, source, model, workers=0, rank=1, size=2)  # it looks only now
    assert store.missing() == []


def test_a_store_that_stays_incomplete_is_an_error(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EntryWriter, "__call__", lambda self, index: index)  # writes nothing
    with pytest.raises(DataError, match="still lacks 4 entries"):
        opened(views_of(open_list(tree, "train")))
