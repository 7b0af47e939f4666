"""Scores of a confusion matrix, against the definition by sets and by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reconet.evaluation.metrics import (
    BAND,
    boundary_iou,
    confusion_matrix,
    count_boundaries,
    scores,
)

CLASSES = 4
pixels = st.lists(
    st.tuples(st.sampled_from([0, 1, 2, 3, 255]), st.integers(0, CLASSES - 1)), min_size=1
)


def slow_iou(pairs: list[tuple[int, int]], k: int) -> float:
    """Compute intersection over union of one class, by sets of pixel numbers."""
    truth = {i for i, (t, _) in enumerate(pairs) if t == k}
    predicted = {i for i, (t, p) in enumerate(pairs) if p == k and t != 255}
    union = truth | predicted
    return len(truth & predicted) / len(union) if union else math.nan


@settings(deadline=None)
@given(pixels)
def test_iou_equals_the_set_definition(pairs: list[tuple[int, int]]) -> None:
    label_n, predicted_n = torch.tensor(pairs).T
    result = scores(confusion_matrix(label_n, predicted_n, CLASSES))
    expected = torch.tensor([slow_iou(pairs, k) for k in range(CLASSES)]).double()
    torch.testing.assert_close(result.iou_k, expected, equal_nan=True)
    torch.testing.assert_close(result.mean_iou, expected.nanmean(), equal_nan=True)


def test_perfect_prediction_scores_one_everywhere() -> None:
    label_n = torch.tensor([0, 1, 2, 2])
    result = scores(confusion_matrix(label_n, label_n, 3))
    assert result.mean_iou == result.pixel_accuracy == result.mean_accuracy == 1.0
    assert result.frequency_weighted_iou == 1.0


def test_the_four_scores_of_a_small_case_worked_by_hand() -> None:
    label_n = torch.tensor([0, 0, 0, 1])
    predicted_n = torch.tensor([0, 0, 1, 1])
    result = scores(confusion_matrix(label_n, predicted_n, 2))
    torch.testing.assert_close(result.iou_k, torch.tensor([2 / 3, 1 / 2], dtype=torch.double))
    assert math.isclose(result.pixel_accuracy.item(), 3 / 4)
    assert math.isclose(result.mean_accuracy.item(), (2 / 3 + 1) / 2)
    assert math.isclose(result.frequency_weighted_iou.item(), 3 / 4 * 2 / 3 + 1 / 4 * 1 / 2)


def test_void_is_not_scored_even_where_something_is_predicted() -> None:
    label_n, predicted_n = torch.tensor([0, 1, 255]), torch.tensor([0, 1, 0])
    assert scores(confusion_matrix(label_n, predicted_n, 2)).mean_iou == 1.0


def test_class_absent_everywhere_does_not_lower_the_mean() -> None:
    label_n = torch.tensor([0, 1])
    assert scores(confusion_matrix(label_n, label_n, 3)).mean_iou == 1.0


def test_class_predicted_but_never_true_scores_zero() -> None:
    result = scores(confusion_matrix(torch.tensor([0, 0]), torch.tensor([0, 2]), 3))
    assert result.iou_k[2] == 0.0
    assert result.iou_k[1].isnan()


def test_eight_bit_maps_of_many_classes_do_not_overflow() -> None:
    label_hw = torch.full((3, 5), 149, dtype=torch.uint8)
    count_kk = confusion_matrix(label_hw, label_hw, 150)
    assert count_kk.dtype == torch.int64
    assert count_kk[149, 149] == 15


def test_nothing_but_void_scores_nan_not_an_error() -> None:
    result = scores(confusion_matrix(torch.tensor([255]), torch.tensor([0]), 2))
    assert result.pixel_accuracy.isnan()
    assert result.mean_iou.isnan()


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


def test_a_perfect_prediction_has_perfect_boundaries_and_an_absent_class_none() -> None:
    label_hw = np.zeros((30, 40), np.uint8)
    label_hw[5:20, 10:30] = 1
    label_hw[4, 9:31] = 255
    iou_k = boundary_iou(torch.from_numpy(count_boundaries(label_hw, label_hw % 255, 3)))
    assert iou_k[:2].tolist() == [1.0, 1.0]
    assert iou_k[2].isnan()
