"""List and clear the cache: only what is ours, and never what a process uses."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from reconet.cache import Store, clear_cache, list_cache, lock_store
from reconet.engine import run_training
from reconet.errors import RecipeError
from tests.data.trees import OPTIONS, make_tree
from tests.factories import ProgressRecorder, tiny_recipe

DAY = 86400
FEATURES, PROJECTIONS, FAST = "features", "projections", "fast"
FAMILY, OTHER = "a" * 20, "b" * 20


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make_store(
    root: Path, digest: str, *, dataset: str = "voc12", written: int = 2, days: float = 0
) -> Store:
    store = Store(root / FEATURES / FAMILY / digest, 3, "c4", "float16", (2, 3, 5))
    store.create({"kind": "views", "dataset": dataset, "split": "train"})
    for index in range(written):
        store.write(index, np.ones((2, 3, 5), np.float16))
    (store.directory / ".use").touch()
    os.utime(store.directory / ".use", (0, time.time() - days * DAY))
    return store


def names() -> set[str]:
    return {item.name for item in list_cache()}


def test_an_empty_cache_has_no_items(root: Path) -> None:
    assert list_cache() == []
    assert not root.exists()


def test_a_store_is_listed_with_what_it_holds(root: Path) -> None:
    store = make_store(root, "1" * 20, days=3)
    [item] = list_cache()
    assert (item.name, item.kind, item.dataset) == ("aaaaaaaa-11111111", "views", "voc12")
    assert (item.done, item.total, item.in_use) == (2, 3, False)
    files = [path for path in store.directory.iterdir() if path.is_file()]
    assert item.bytes == sum(path.stat().st_blocks * 512 for path in files) > 0
    assert time.time() - item.last_use == pytest.approx(3 * DAY, abs=60)
    assert json.loads(json.dumps(item.as_dict()))["split"] == "train"


def test_a_training_describes_its_stores_and_its_projection(root: Path, tmp_path: Path) -> None:
    recipe = tiny_recipe(
        *("model.frozen=true", "model.project=8", "model.aux=false", "data.views=2"),
        *("data.options.train=8", "data.options.val=3", "train.steps=1"),
    )
    run_training(recipe, tmp_path / "run", device="cpu")
    items = {item.kind: item for item in list_cache()}
    assert set(items) == {"views", "labels", "whole images", "projection"}
    for kind, item in items.items():
        assert item.dataset == "scenes"
        if kind == "labels":
            assert "backbone" not in item.about  # they are those of any network
        else:
            assert (item.about["backbone"], item.about["project"]) == ("resnet18", 8)
        assert item.done == item.total
    views = items["views"].about
    assert (views["split"], views["images"], views["views"]) == ("train", 8, 2)
    assert views["crop"] == [64, 64]
    assert items["whole images"].about["split"] == "val"
    paths = set((root / FEATURES).glob("*/*"))
    os.utime(items["projection"].path, (0, 0))
    run_training(recipe, tmp_path / "again", device="cpu")
    assert set((root / FEATURES).glob("*/*")) == paths
    assert min(item.last_use for item in list_cache()) > time.time() - DAY


def test_another_meaning_of_the_masks_finds_other_labels(tmp_path: Path) -> None:
    make_tree("folder", tmp_path / "data")
    for meaning in ({}, {"label_map": {"0": "tree", "1": "ground", "2": "roof", "255": "ignore"}}):
        options = json.dumps({**OPTIONS["folder"], **meaning})
        recipe = tiny_recipe(
            *("data.name=folder", f"data.root={tmp_path / 'data'}", f"data.options={options}"),
            *("model.frozen=true", "data.views=1", "model.aux=false", "train.steps=1"),
            "train.batch=1",
        )
        run_training(recipe, tmp_path / f"run {len(meaning)}", device="cpu")
    kinds = Counter(item.kind for item in list_cache())
    assert kinds == {"views": 1, "labels": 2, "whole images": 1}  # the features are the same
    stores = [item.path for item in list_cache() if item.kind == "labels"]
    labels = [(path / "label.bin").read_bytes() for path in stores]
    assert labels[0] != labels[1]


def test_items_are_cleared_by_name_by_dataset_and_by_age(root: Path) -> None:
    for digit, (dataset, days) in enumerate([("voc12", 0), ("voc12", 9), ("camvid", 40)]):
        make_store(root, str(digit) * 20, dataset=dataset, days=days)
    before = {item.name: item.bytes for item in list_cache()}
    done = clear_cache(older_than=30)
    assert [item.name for item in done.items] == ["aaaaaaaa-22222222"]
    assert done.bytes == before["aaaaaaaa-22222222"]
    assert clear_cache(["voc12"], older_than=30).items == ()
    assert len(clear_cache(["aaaaaaaa-00000000"]).items) == 1
    assert names() == {"aaaaaaaa-11111111"}
    assert len(clear_cache(["voc12"]).items) == 1
    assert list((root / FEATURES).iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "say what to clear"),
        ({"names": ["vco12"]}, r"Did you mean 'voc12'\?"),
        ({"names": ["voc12"], "everything": True}, "leave out the names"),
    ],
)
def test_what_is_unclear_is_refused(root: Path, arguments: dict[str, object], message: str) -> None:
    make_store(root, "1" * 20)
    with pytest.raises(RecipeError, match=message):
        clear_cache(**arguments)  # type: ignore[arg-type]
    assert len(list_cache()) == 1


@pytest.mark.parametrize("lock", ["enter(lock_store(place))", "mark_in_use(place)"])
def test_what_another_process_builds_or_uses_stays(root: Path, lock: str) -> None:
    store = make_store(root, "1" * 20)
    make_store(root, "2" * 20)
    program = (
        "import sys; from pathlib import Path; from reconet.cache import lock_store\n"
        "from reconet.system.user_cache import mark_in_use\n"
        "from contextlib import ExitStack; enter = ExitStack().enter_context\n"
        f"place = Path(sys.argv[1]); {lock}\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(store.directory)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert {item.name for item in list_cache() if item.in_use} == {"aaaaaaaa-11111111"}
        done = clear_cache(everything=True)
        assert [item.name for item in done.in_use] == ["aaaaaaaa-11111111"]
        assert [item.name for item in done.items] == ["aaaaaaaa-22222222"]
        assert store.missing() == [2]
        process.communicate("")
    assert len(clear_cache(everything=True).items) == 1


def test_who_waits_for_a_store_that_is_deleted_gets_a_new_one(root: Path) -> None:
    store = make_store(root, "1" * 20)
    waiting = threading.Event()

    def wait_and_build() -> None:
        waiting.set()
        with lock_store(store.directory):
            store.create({"kind": "views"})

    builder = threading.Thread(target=wait_and_build)
    with lock_store(store.directory):
        builder.start()
        waiting.wait()
        time.sleep(0.05)
        for path in store.directory.iterdir():
            path.unlink()
        store.directory.rmdir()
    builder.join(10)
    [item] = list_cache()
    assert (item.done, item.total) == (0, 3)


class NoteAlarm(ProgressRecorder):
    """Lets another thread wait for the first note."""

    def __init__(self) -> None:
        super().__init__()
        self.noted = threading.Event()

    def note(self, text: str) -> None:
        super().note(text)
        self.noted.set()


def test_who_waits_for_another_builder_says_so(root: Path) -> None:
    store, progress, entered = make_store(root, "1" * 20), NoteAlarm(), threading.Event()

    def build() -> None:
        with lock_store(store.directory, progress):
            entered.set()

    builder = threading.Thread(target=build)
    with lock_store(store.directory):
        builder.start()
        assert progress.noted.wait(10)
        assert not entered.is_set()
    builder.join(10)
    assert entered.is_set()
    assert progress.lines == [f"waiting for another training that builds {store.directory}"]


def test_only_own_files_are_deleted_and_no_link_is_followed(root: Path, tmp_path: Path) -> None:
    outside = make_store(tmp_path / "outside", "1" * 20).directory
    before = sorted(path.name for path in outside.iterdir())
    store = make_store(root, "2" * 20)
    (store.directory / "notes.txt").write_text("mine")
    (store.directory / "label.bin").symlink_to(outside / "c4.bin")
    (root / FEATURES / OTHER).symlink_to(outside.parent)  # a family
    (root / FEATURES / FAMILY / ("3" * 20)).symlink_to(outside)  # a store
    (root / "mine").mkdir()
    (root / PROJECTIONS).symlink_to(tmp_path / "outside")
    (tmp_path / "outside" / f"{'4' * 20}.safetensors").write_text("not ours")
    assert names() == {"aaaaaaaa-22222222"}
    clear_cache(everything=True)
    assert sorted(path.name for path in outside.iterdir()) == before
    assert [path.name for path in store.directory.iterdir()] == ["notes.txt"]
    assert (root / "mine").is_dir()
    assert (tmp_path / "outside" / f"{'4' * 20}.safetensors").exists()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"kind": 3, "entries": "x"}'])
def test_a_broken_store_is_listed_and_can_be_cleared(root: Path, text: str) -> None:
    store = make_store(root, "1" * 20)
    (store.directory / "store.json").write_text(text)
    (store.directory / "checksums.bin").write_bytes(b"123456")
    (root / PROJECTIONS).mkdir()
    (root / PROJECTIONS / f"{'4' * 20}.safetensors").write_text("no header")
    kinds = {item.name: item.kind for item in list_cache()}
    assert kinds == {"aaaaaaaa-11111111": "unreadable", "44444444": "projection"}
    assert len(clear_cache(everything=True).items) == 2
    assert list_cache() == []


def test_a_projection_wider_than_the_features_is_refused(tmp_path: Path) -> None:
    recipe = tiny_recipe("model.project=100", "model.frozen=true", "data.views=1")
    with pytest.raises(RecipeError, match=r"model\.project=100 is more than the 64 channels"):
        run_training(recipe, tmp_path / "run", device="cpu")


def test_what_fast_keeps_is_listed_and_cleared(root: Path) -> None:
    folder = root / FAST / ("c" * 20)
    folder.mkdir(parents=True)
    (folder / "choice.json").write_text(json.dumps({"network": "runs/voc", "text": "int8"}))
    (folder / "network.onnx").write_bytes(b"1" * 5000)
    (folder / "notes.txt").write_text("of the user")
    [item] = list_cache()
    assert (item.name, item.kind, item.about["network"]) == ("c" * 8, FAST, "runs/voc")
    assert item.bytes >= 5000
    assert [one.name for one in clear_cache(everything=True).items] == ["c" * 8]
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
