"""The scores of the benchmarks, against scikit-learn and by hand."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix as sklearn_matrix
from sklearn.metrics import jaccard_score

from reconet.data import DATASETS
from reconet.evaluation.benchmarks import benchmark_scores, named_scores
from reconet.evaluation.metrics import confusion_matrix
from reconet.types import IGNORE

SIFT_FLOW = DATASETS["siftflow"].info.classes


def pixels(classes: int, absent: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return labels with void, and predictions that are right more often than not.

    The last `absent` classes occur in neither.
    """
    rng = np.random.default_rng(0)
    label_n = rng.integers(0, classes - absent, 5000)
    wrong_n = rng.random(5000) < 0.4
    predicted_n = np.where(wrong_n, rng.integers(0, classes - absent, 5000), label_n)
    label_n[rng.random(5000) < 0.1] = IGNORE
    return torch.from_numpy(label_n.astype(np.uint8)), torch.from_numpy(
        predicted_n.astype(np.uint8)
    )


@pytest.mark.parametrize(("classes", "absent"), [(2, 0), (21, 0), (21, 3), (150, 40)])
def test_scores_equal_those_of_scikit_learn(classes: int, absent: int) -> None:
    label_n, predicted_n = pixels(classes, absent)
    count_kk = confusion_matrix(label_n, predicted_n, classes)
    scored_n = label_n != IGNORE
    truth, predicted = label_n[scored_n].numpy(), predicted_n[scored_n].numpy()
    expected_kk = sklearn_matrix(truth, predicted, labels=range(classes))
    assert count_kk.tolist() == expected_kk.tolist()
    result = named_scores(count_kk, "any", tuple("c" * classes))
    present = sorted({*truth.tolist(), *predicted.tolist()})
    expected = jaccard_score(truth, predicted, labels=present, average="macro")
    assert result["miou"] == pytest.approx(expected, abs=1e-12)
    assert result["pixel_accuracy"] == pytest.approx((truth == predicted).mean(), abs=1e-12)


def test_pascal_context_has_three_numbers() -> None:
    label_n, predicted_n = pixels(60)
    info = DATASETS["pcontext"].info
    result = named_scores(confusion_matrix(label_n, predicted_n, 60), info.name, info.classes)
    scored_n = (label_n != IGNORE) & (label_n != 0)
    truth, predicted = label_n[scored_n].numpy(), predicted_n[scored_n].numpy()
    expected = jaccard_score(truth, predicted, labels=range(1, 60), average="macro")
    assert result["miou_60"] == result["miou"]
    assert result["miou_59"] == pytest.approx(expected, abs=1e-12)
    assert result["miou_59_of_60"] == pytest.approx(expected * 59 / 60, abs=1e-12)


def test_pascal_context_with_59_classes_has_no_60_class_score() -> None:
    info = DATASETS["pcontext59"].info
    result = named_scores(confusion_matrix(*pixels(59), 59), info.name, info.classes)
    assert result["miou_59"] == result["miou"]
    assert "miou_60" not in result


def test_absent_classes_of_sift_flow_are_left_out_even_if_they_are_predicted() -> None:
    moon = SIFT_FLOW.index("moon")
    count_kk = torch.diag(torch.full((33,), 5))
    for name in DATASETS["siftflow"].absent_classes:
        count_kk[SIFT_FLOW.index(name)] = 0
    count_kk[0, moon] = 5
    result = benchmark_scores(count_kk, "siftflow", SIFT_FLOW)
    assert math.isnan(result.iou_k[moon])
    assert named_scores(count_kk, "siftflow", SIFT_FLOW)["miou"] == pytest.approx((29 + 0.5) / 30)
    assert named_scores(count_kk, "camvid", SIFT_FLOW)["miou"] == pytest.approx((29 + 0.5) / 31)


def test_a_class_of_sift_flow_that_does_occur_counts() -> None:
    count_kk = torch.diag(torch.full((33,), 5))
    moon = SIFT_FLOW.index("moon")
    count_kk[moon, moon], count_kk[moon, 0] = 0, 5
    assert benchmark_scores(count_kk, "siftflow", SIFT_FLOW).iou_k[moon] == 0


def test_the_challenge_score_of_ade20k() -> None:
    info = DATASETS["ade20k"].info
    result = named_scores(confusion_matrix(*pixels(150), 150), info.name, info.classes)
    assert result["challenge"] == (result["miou"] + result["pixel_accuracy"]) / 2
