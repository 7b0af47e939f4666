"""Conversions: right, resumable, atomic; and val never leaks into trainaug."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconet.data import DATASETS, open_dataset, prepare_dataset
from reconet.data.images.read import read_mask
from reconet.data.prepare import decode, run_lengths
from reconet.errors import DataError, MissingExtraError, ReconetError
from tests.data.trees import (
    HEIGHT,
    WIDTH,
    expected,
    run_length,
    save_list,
    save_mat,
    save_png,
    write_coco,
    write_pcontext,
    write_pcontext_json,
    write_voc12,
)
from tests.factories import ProgressRecorder

VOC = "VOCdevkit/VOC2012"
LISTS = f"{VOC}/ImageSets/Segmentation"
CONTEXT = "VOCdevkit/VOC2010"
WRITERS = {"voc12": write_voc12, "pcontext": write_pcontext, "coco": write_coco}


def snapshot(root: Path) -> dict[Path, tuple[int, bytes]]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_trainaug_is_train_and_sbd_without_val(tmp_path: Path) -> None:
    write_voc12(tmp_path)
    assert prepare_dataset("voc12", tmp_path, workers=0).counts == {"trainaug": 6}
    names = (tmp_path / LISTS / "trainaug.txt").read_text().split()
    assert names == sorted(names)
    assert not set(names) & set((tmp_path / LISTS / "val.txt").read_text().split())
    assert {"2008_000001", "2008_000002", "2007_000000"} < set(names)


def test_the_labels_of_voc_win_over_those_of_sbd(tmp_path: Path) -> None:
    write_voc12(tmp_path)
    prepare_dataset("voc12", tmp_path, workers=0)
    name = "2007_000000.png"
    official = (tmp_path / VOC / "SegmentationClass" / name).read_bytes()
    assert (tmp_path / VOC / "SegmentationClassAug" / name).read_bytes() == official


def test_sbd_may_lie_elsewhere(tmp_path: Path) -> None:
    write_voc12(tmp_path)
    (tmp_path / "benchmark_RELEASE").rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"no SBD near .*benchmark_RELEASE"):
        prepare_dataset("voc12", tmp_path, workers=0)
    with pytest.raises(DataError, match=r"expected the folder cls of SBD in .*; found nothing"):
        prepare_dataset("voc12", tmp_path, source=tmp_path / "nowhere", workers=0)
    found = prepare_dataset("voc12", tmp_path, source=tmp_path / "elsewhere", workers=0)
    assert found.counts == {"trainaug": 6}


def test_a_downloaded_aug_folder_needs_only_its_list(tmp_path: Path) -> None:
    write_voc12(tmp_path)
    prepare_dataset("voc12", tmp_path, workers=0)
    shutil.rmtree(tmp_path / "benchmark_RELEASE")
    label_hw = expected("voc12", "2007_000010")
    save_png(
        tmp_path / VOC / "SegmentationClassAug/2007_000010.png", label_hw
    )  # val, as mirrors do
    before = (tmp_path / LISTS / "trainaug.txt").read_text()
    (tmp_path / LISTS / "trainaug.txt").unlink()
    prepare_dataset("voc12", tmp_path, workers=0)
    assert (tmp_path / LISTS / "trainaug.txt").read_text() == before


@pytest.mark.parametrize("write", [write_pcontext, write_pcontext_json])
def test_both_sources_of_pascal_context_give_the_same_labels(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    write(tmp_path)
    counts = prepare_dataset("pcontext", tmp_path, workers=0).counts
    assert counts == {"train": 4, "val": 2}
    shutil.rmtree(tmp_path / CONTEXT / "trainval", ignore_errors=True)  # not read any more
    for name in ("pcontext", "pcontext59"):
        for split in ("train", "val"):
            dataset = open_dataset(name, split, tmp_path)
            for index in range(len(dataset)):
                sample = dataset[index]
                np.testing.assert_array_equal(sample.label_hw, expected(name, sample.name))


def test_the_labels_of_pascal_context_may_lie_elsewhere(tmp_path: Path) -> None:
    write_pcontext(tmp_path)
    (tmp_path / CONTEXT / "trainval").rename(tmp_path / "mats")
    for source in (None, tmp_path / "nowhere"):
        with pytest.raises(DataError, match=r"no labels in .*: expected trainval_merged.json"):
            prepare_dataset("pcontext", tmp_path, source=source, workers=0)
    found = prepare_dataset("pcontext", tmp_path, source=tmp_path / "mats", workers=0)
    assert found.counts == {"train": 4, "val": 2}


def test_coco_keeps_images_with_more_than_1000_labelled_pixels(tmp_path: Path) -> None:
    write_coco(tmp_path)
    assert prepare_dataset("coco", tmp_path, workers=0).counts == {"train": 4, "val": 2}
    assert not (tmp_path / "voc_labels/train2017/000000000005.png").exists()
    images, _ = json.loads((tmp_path / "annotations/instances_train2017.json").read_text()).values()
    assert len(images) == 5


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_a_second_run_changes_no_label_and_an_interrupted_one_resumes(
    tmp_path: Path, name: str
) -> None:
    WRITERS[name](tmp_path)
    first = prepare_dataset(name, tmp_path, workers=0)
    assert first.done > 0
    before = snapshot(tmp_path)
    folder = {"voc12": "ClassAug", "pcontext": "ClassContext", "coco": "voc_labels"}[name]
    labels = [path for path in before if folder in str(path) and path.suffix == ".png"]
    assert labels
    lost = labels[0]
    lost.unlink()
    progress = ProgressRecorder()
    again = prepare_dataset(name, tmp_path, workers=0, progress=progress)
    assert again.skipped == len(labels) - 1
    total = again.skipped + again.done
    steps = ["advance 1"] * again.done
    assert progress.lines == [f"start {total}", f"advance {again.skipped}", *steps]
    after = snapshot(tmp_path)
    assert {path: data for path, (_, data) in after.items()} == {
        path: data for path, (_, data) in before.items()
    }
    untouched = set(labels) - {lost}
    assert all(after[path][0] == before[path][0] for path in untouched)
    assert not list(tmp_path.rglob("*.part"))


def test_a_broken_source_is_named_and_no_list_is_written(tmp_path: Path) -> None:
    write_voc12(tmp_path)
    (tmp_path / "benchmark_RELEASE/dataset/cls/2008_000002.mat").write_bytes(b"broken" * 50)
    with pytest.raises(DataError, match=r"cannot read .*2008_000002.mat"):
        prepare_dataset("voc12", tmp_path, workers=0)
    assert (tmp_path / VOC / "SegmentationClassAug/2008_000001.png").exists()
    assert not (tmp_path / LISTS / "trainaug.txt").exists()


def test_errors_and_results_come_back_from_worker_processes(tmp_path: Path) -> None:
    write_voc12(tmp_path)
    path = tmp_path / "benchmark_RELEASE/dataset/cls/2008_000002.mat"
    whole = path.read_bytes()
    path.write_bytes(b"broken" * 50)
    with pytest.raises(DataError, match=r"cannot read .*2008_000002.mat"):
        prepare_dataset("voc12", tmp_path, workers=2)
    path.write_bytes(whole)
    assert prepare_dataset("voc12", tmp_path, workers=1).counts == {"trainaug": 6}
    label_hw = read_mask(tmp_path / VOC / "SegmentationClassAug/2008_000002.png")
    np.testing.assert_array_equal(label_hw, expected("voc12", "2008_000002"))


def test_sbd_labels_outside_the_classes_are_refused(tmp_path: Path) -> None:
    write_voc12(tmp_path)
    wrong_hw = np.full((HEIGHT, WIDTH), 37, np.uint8)
    path = tmp_path / "benchmark_RELEASE/dataset/cls/2008_000002.mat"
    save_mat(path, GTcls={"Segmentation": wrong_hw})
    with pytest.raises(DataError, match=r"2008_000002.mat holds labels .* 37 \(2,240 pixels\)"):
        prepare_dataset("voc12", tmp_path, workers=0)
    save_mat(path, GTcls={"Boundaries": wrong_hw})
    with pytest.raises(DataError, match=r"2008_000002.mat has no GTcls"):
        prepare_dataset("voc12", tmp_path, workers=0)


def test_files_of_another_kind_are_named(tmp_path: Path) -> None:
    write_coco(tmp_path)
    path = tmp_path / "annotations/instances_val2017.json"
    for text, message in (("{}", "has no lists"), ("{", "cannot read"), ("[]", "has no lists")):
        path.write_text(text)
        with pytest.raises(DataError, match=message) as caught:
            prepare_dataset("coco", tmp_path, workers=0)
        assert path.name in str(caught.value)
    shutil.rmtree(tmp_path / "annotations")
    save_list(tmp_path / "annotations/captions.json", ["{}"])
    with pytest.raises(
        DataError, match=r"expected instances_train2017.json .* found captions.json"
    ):
        prepare_dataset("coco", tmp_path, workers=0)


def test_a_bad_segmentation_names_its_image(tmp_path: Path) -> None:
    write_coco(tmp_path)
    path = tmp_path / "annotations/instances_val2017.json"
    content = json.loads(path.read_text())
    content["annotations"].append(
        {"image_id": 11, "category_id": 1, "segmentation": {"size": [40, 56], "counts": [3, 4]}}
    )
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"cannot draw 000000000011: .*do not fill 40 x 56"):
        prepare_dataset("coco", tmp_path, workers=0)


def test_polygons_without_pycocotools_name_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_coco(tmp_path)
    monkeypatch.setitem(sys.modules, "pycocotools.mask", None)
    with pytest.raises(MissingExtraError, match=r"\.\[data\]"):
        prepare_dataset("coco", tmp_path, workers=0)


@pytest.mark.parametrize("name", sorted(n for n, k in DATASETS.items() if k.prepare is None))
def test_what_is_read_as_it_is_needs_no_preparation(tmp_path: Path, name: str) -> None:
    with pytest.raises(ReconetError, match=f"{name} is read as it is: nothing to prepare"):
        prepare_dataset(name, tmp_path)


@given(st.integers(1, 9), st.lists(st.booleans(), min_size=1, max_size=9))
def test_run_lengths_are_those_of_pycocotools(width: int, column: list[bool]) -> None:
    mask_hw = np.array([np.roll(column, shift) for shift in range(width)]).T
    for compressed in (False, True):
        code = run_length(mask_hw, compressed=compressed)
        np.testing.assert_array_equal(decode(code, len(column), width), mask_hw)


def test_long_run_lengths_survive_compression() -> None:
    from pycocotools import mask  # type: ignore[import-untyped]

    counts = [100_000, 3, 70_000, 1, 1, 900, 29_095]
    code = mask.frPyObjects({"size": [400, 500], "counts": counts}, 400, 500)
    assert run_lengths(code["counts"]) == counts
