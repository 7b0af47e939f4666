"""Scores of a confusion matrix, against scikit-learn, the definition by sets, and by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix as sklearn_matrix
from sklearn.metrics import jaccard_score

from reconet.data import DATASETS
from reconet.evaluation.metrics import (
    BAND,
    benchmark_scores,
    confusion_matrix,
    count_boundaries,
    named_scores,
    scores,
)
from reconet.types import IGNORE

CLASSES = 4
SIFT_FLOW = DATASETS["siftflow"].info.classes
pairs_of_pixels = st.lists(
    st.tuples(st.sampled_from([0, 1, 2, 3, 255]), st.integers(0, CLASSES - 1)), min_size=1
)


def slow_iou(pairs: list[tuple[int, int]], k: int) -> float:
    """Compute intersection over union of one class, by sets of pixel numbers."""
    truth = {i for i, (t, _) in enumerate(pairs) if t == k}
    predicted = {i for i, (t, p) in enumerate(pairs) if p == k and t != 255}
    union = truth | predicted
    return len(truth & predicted) / len(union) if union else math.nan


@settings(deadline=None)
@given(pairs_of_pixels)
def test_iou_equals_the_set_definition(pairs: list[tuple[int, int]]) -> None:
    label_n, predicted_n = torch.tensor(pairs).T
    result = scores(confusion_matrix(label_n, predicted_n, CLASSES))
    expected = torch.tensor([slow_iou(pairs, k) for k in range(CLASSES)]).double()
    torch.testing.assert_close(result.iou_k, expected, equal_nan=True)
    assert result.mean_iou == pytest.approx(expected.nanmean().item(), nan_ok=True)


def test_the_four_scores_of_a_small_case_worked_by_hand() -> None:
    label_n = torch.tensor([0, 0, 0, 1])
    predicted_n = torch.tensor([0, 0, 1, 1])
    result = scores(confusion_matrix(label_n, predicted_n, 2))
    torch.testing.assert_close(result.iou_k, torch.tensor([2 / 3, 1 / 2], dtype=torch.double))
    assert math.isclose(result.pixel_accuracy, 3 / 4)
    assert math.isclose(result.mean_accuracy, (2 / 3 + 1) / 2)
    assert math.isclose(result.frequency_weighted_iou, 3 / 4 * 2 / 3 + 1 / 4 * 1 / 2)


def test_predictions_outside_the_classes_are_an_error_not_a_wrong_score() -> None:
    with pytest.raises(ValueError, match="outside the 3 classes"):
        confusion_matrix(torch.tensor([1]), torch.tensor([3]), 3)


def slow_boundaries(
    label_hw: np.ndarray, predicted_hw: np.ndarray, classes: int
) -> list[list[int]]:
    """Count pixels of each class that have a pixel of another class, or none, within the band."""
    height, width = label_hw.shape
    band = max(1, round(BAND * math.hypot(height, width)))

    def inner(of_hw: np.ndarray, k: int) -> set[tuple[int, int]]:
        there = {(y, x) for y in range(height) for x in range(width) if of_hw[y, x] == k}
        near = range(-band, band + 1)
        return {
            (y, x) for y, x in there if any((y + i, x + j) not in there for i in near for j in near)
        }

    found_hw = np.where(label_hw == 255, 255, predicted_hw)
    bands = [(inner(label_hw, k), inner(found_hw, k)) for k in range(classes)]
    return [[len(a & b), len(a), len(b)] for a, b in bands]


@pytest.mark.parametrize("size", [(9, 14), (40, 61), (1, 5)])
def test_boundaries_equal_their_definition(size: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    coarse_hw = rng.choice([0, 1, 2, 255], size=(size[0] // 4 + 1, size[1] // 4 + 1))
    label_hw = np.kron(coarse_hw, np.ones((4, 4)))[: size[0], : size[1]].astype(np.uint8)
    predicted_hw = np.roll(np.where(label_hw == 255, 1, label_hw), 1, axis=1).astype(np.uint8)
    counts_3k = count_boundaries(label_hw, predicted_hw, 4)
    assert counts_3k.T.tolist() == slow_boundaries(label_hw, predicted_hw, 4)


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


def test_the_challenge_score_of_ade20k() -> None:
    info = DATASETS["ade20k"].info
    result = named_scores(confusion_matrix(*pixels(150), 150), info.name, info.classes)
    assert result["challenge"] == (result["miou"] + result["pixel_accuracy"]) / 2
