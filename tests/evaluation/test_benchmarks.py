"""The figures of the benchmarks, against scikit-learn and by hand."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, jaccard_score

from reconet.data import DATASETS
from reconet.evaluation.benchmarks import SIFT_FLOW_ABSENT, benchmark_scores, score_figures
from reconet.evaluation.metrics import confusion
from reconet.types import IGNORE

SIFT_FLOW = DATASETS["siftflow"].info.classes


def pixels(classes: int, absent: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Labels with void, and predictions that are right more often than not; the last `absent`
    classes occur in neither."""
    rng = np.random.default_rng(0)
    label_n = rng.integers(0, classes - absent, 5000)
    wrong_n = rng.random(5000) < 0.4
    said_n = np.where(wrong_n, rng.integers(0, classes - absent, 5000), label_n)
    label_n[rng.random(5000) < 0.1] = IGNORE
    return torch.from_numpy(label_n.astype(np.uint8)), torch.from_numpy(said_n.astype(np.uint8))


@pytest.mark.parametrize(("classes", "absent"), [(2, 0), (21, 0), (21, 3), (150, 40)])
def test_scores_equal_those_of_scikit_learn(classes: int, absent: int) -> None:
    label_n, said_n = pixels(classes, absent)
    count_kk = confusion(label_n, said_n, classes)
    scored_n = label_n != IGNORE
    truth, said = label_n[scored_n].numpy(), said_n[scored_n].numpy()
    expected_kk = confusion_matrix(truth, said, labels=range(classes))
    assert count_kk.tolist() == expected_kk.tolist()
    figures = score_figures(count_kk, "any", tuple("c" * classes))
    present = sorted({*truth.tolist(), *said.tolist()})
    expected = jaccard_score(truth, said, labels=present, average="macro")
    assert figures["miou"] == pytest.approx(expected, abs=1e-12)
    assert figures["pixel_accuracy"] == pytest.approx((truth == said).mean(), abs=1e-12)


def test_pascal_context_has_three_numbers() -> None:
    label_n, said_n = pixels(60)
    info = DATASETS["pcontext"].info
    figures = score_figures(confusion(label_n, said_n, 60), info.name, info.classes)
    scored_n = (label_n != IGNORE) & (label_n != 0)
    truth, said = label_n[scored_n].numpy(), said_n[scored_n].numpy()
    expected = jaccard_score(truth, said, labels=range(1, 60), average="macro")
    assert figures["miou_60"] == figures["miou"]
    assert figures["miou_59"] == pytest.approx(expected, abs=1e-12)
    assert figures["miou_59_of_60"] == pytest.approx(expected * 59 / 60, abs=1e-12)


def test_pascal_context_with_59_classes_has_no_60_class_score() -> None:
    info = DATASETS["pcontext59"].info
    figures = score_figures(confusion(*pixels(59), 59), info.name, info.classes)
    assert figures["miou_59"] == figures["miou"]
    assert "miou_60" not in figures


def test_absent_classes_of_sift_flow_are_left_out_even_if_they_are_predicted() -> None:
    moon = SIFT_FLOW.index("moon")
    count_kk = torch.diag(torch.full((33,), 5))
    for name in SIFT_FLOW_ABSENT:
        count_kk[SIFT_FLOW.index(name)] = 0
    count_kk[0, moon] = 5
    result = benchmark_scores(count_kk, "siftflow", SIFT_FLOW)
    assert math.isnan(result.iou_k[moon])
    assert score_figures(count_kk, "siftflow", SIFT_FLOW)["miou"] == pytest.approx((29 + 0.5) / 30)
    assert score_figures(count_kk, "camvid", SIFT_FLOW)["miou"] == pytest.approx((29 + 0.5) / 31)


def test_a_class_of_sift_flow_that_does_occur_counts() -> None:
    count_kk = torch.diag(torch.full((33,), 5))
    moon = SIFT_FLOW.index("moon")
    count_kk[moon, moon], count_kk[moon, 0] = 0, 5
    assert benchmark_scores(count_kk, "siftflow", SIFT_FLOW).iou_k[moon] == 0


def test_the_challenge_score_of_ade20k() -> None:
    info = DATASETS["ade20k"].info
    figures = score_figures(confusion(*pixels(150), 150), info.name, info.classes)
    assert figures["challenge"] == (figures["miou"] + figures["pixel_accuracy"]) / 2
