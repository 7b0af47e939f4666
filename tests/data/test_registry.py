"""The table of datasets: one line adds a dataset, and all that it declares is used."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from reconet.data import (
    DATASETS,
    DatasetEntry,
    DatasetInfo,
    dataset_root,
    open_dataset,
    prepare_dataset,
)
from reconet.data.dataset import FileDataset, Pair
from reconet.data.entry import ExtraScore, SubmissionFormat
from reconet.data.images.write import grey_png, write_mask
from reconet.data.labels import LabelReader, in_order
from reconet.data.layout import find_root
from reconet.data.prepare.run import Job, PreparePlan
from reconet.errors import ReconetError
from reconet.evaluation.evaluate import open_submission
from reconet.evaluation.metrics import benchmark_scores, named_scores, score_labels
from reconet.recipes import Settings
from tests.data.trees import make_tree, save_jpeg, stripes

CLASSES = ("soil", "crop", "weed")


class FieldsOptions(Settings):
    void: int = 255


def open_fields(root: Path, split: str, options: FieldsOptions) -> FileDataset:
    home = find_root(root, FIELDS.info.title, (split,))
    read = LabelReader(in_order(3, void=(options.void,)))
    pairs = [
        Pair(path.stem, path, path.with_suffix(".png")) for path in home.glob(f"{split}/*.jpg")
    ]
    return FileDataset(info=FIELDS.info, split=split, pairs=pairs, read_label=read)


def write_label(job: Job) -> None:
    write_mask(job.target, stripes("a", 3), FIELDS.info.palette)


def plan_fields(root: Path, source: Path | None) -> PreparePlan:
    jobs = [Job(root / "val/a.png", None)]
    return PreparePlan(jobs=jobs, work=write_label, finish=lambda: {"val": 1})


FIELDS = DatasetEntry(
    info=DatasetInfo(
        name="fields",
        title="Fields",
        classes=CLASSES,
        palette=((0, 0, 0), (0, 200, 0), (200, 0, 0)),
        splits={"train": None, "val": None},
    ),
    open=open_fields,
    options=FieldsOptions,
    prepare=plan_fields,
    converts="nothing -> one mask",
    folder="farmland",
    absent_classes=("weed",),
    extra_scores={
        "half": ExtraScore("half of the mean", lambda scores: scores.mean_iou / 2),
        "miou_crop": ExtraScore("crop alone", lambda s: s.mean_iou_without("soil", "weed")),
    },
    submission=SubmissionFormat(path="{split}/{name}.png", encode=grey_png, archive="{split}.zip"),
)


@pytest.fixture
def fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(DATASETS, "fields", FIELDS)
    monkeypatch.setenv("RECONET_DATA", str(tmp_path))
    save_jpeg(tmp_path / "farmland/val/a.jpg")
    return tmp_path / "farmland"


def test_a_new_dataset_is_prepared_and_opened_with_its_options(fields: Path) -> None:
    assert dataset_root("fields") == fields
    assert prepare_dataset("fields", workers=0).counts == {"val": 1}
    np.testing.assert_array_equal(open_dataset("fields", "val")[0].label_hw, stripes("a", 3))
    with pytest.raises(ReconetError, match=r"legal: 0\.\.2, 7"):
        open_dataset("fields", "val", options={"void": 7})[0]
    with pytest.raises(ReconetError, match=r"unknown option data.options 'viod'.*'void'"):
        open_dataset("fields", "val", options={"viod": 7})


@pytest.mark.usefixtures("fields")
def test_a_new_dataset_has_its_scores_and_its_submission(tmp_path: Path) -> None:
    count_kk = torch.tensor([[6, 2, 2], [0, 4, 1], [0, 0, 0]])
    scores = named_scores(count_kk, "fields", CLASSES)
    assert scores["miou"] == pytest.approx((6 / 10 + 4 / 7) / 2)
    assert scores["half"] == scores["miou"] / 2
    assert scores["miou_crop"] == pytest.approx(4 / 5)
    assert list(score_labels()) == [
        *("miou", "boundary_iou", "miou_60", "miou_59", "miou_59_of_60", "challenge"),
        *("half", "miou_crop"),
        *("pixel_accuracy", "mean_accuracy", "frequency_weighted_iou"),
    ]
    submission = open_submission("fields", "test", tmp_path / "out")
    submission.put("a", stripes("a", 3))
    assert submission.finish(["a"]) == tmp_path / "out/test.zip"


def test_a_dataset_that_is_not_in_the_table_has_plain_scores() -> None:
    count_kk = torch.tensor([[6, 2, 2], [0, 4, 1], [0, 0, 0]])
    assert benchmark_scores(count_kk, "gone", CLASSES).iou_k[2] == 0
    assert set(named_scores(count_kk, "gone", CLASSES)) == {
        *("miou", "pixel_accuracy", "mean_accuracy", "frequency_weighted_iou"),
    }


def test_a_score_has_the_same_label_in_all_datasets() -> None:
    labels = [
        (key, score.label)
        for entry in DATASETS.values()
        for key, score in entry.extra_scores.items()
    ]
    assert len(set(labels)) == len(dict(labels))


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_a_conversion_says_what_it_converts(name: str) -> None:
    assert bool(DATASETS[name].converts) == (DATASETS[name].prepare is not None)


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_absent_classes_are_classes(name: str) -> None:
    assert set(DATASETS[name].absent_classes) <= set(DATASETS[name].info.classes)


def test_the_root_comes_from_the_environment_or_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECONET_DATA", raising=False)
    with pytest.raises(ReconetError, match=r"where is camvid.*data.root.*--root.*RECONET_DATA"):
        open_dataset("camvid", "val")
    make_tree("camvid", tmp_path / "camvid")
    monkeypatch.setenv("RECONET_DATA", str(tmp_path))
    assert len(open_dataset("camvid", "val")) == 2
    assert dataset_root("pcontext59") == dataset_root("pcontext")


def test_importing_the_datasets_imports_nothing_heavy() -> None:
    code = (
        "import sys, reconet.data; heavy = {'torch', 'scipy', 'pycocotools'} & sys.modules.keys(); "
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    here = str(Path(__file__).parents[2])
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": here})
