"""The figures of pixels and images, and their order, against slow and obvious versions."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from reconet.suggest.rank import (
    Judged,
    contradicts,
    disagreement,
    distances,
    main_contradiction,
    order_by_ranks,
    unsure,
    within_borders,
)
from reconet.types import IGNORE, Label

CLASSES = 4


def some_probabilities(seed: int) -> tuple[Tensor, Label]:
    """Return probability_hkw of a map that is not square, and labels with void."""
    generator = torch.Generator().manual_seed(seed)
    probability_hkw = (3 * torch.randn(5, CLASSES, 7, generator=generator)).softmax(1)
    label_hw = torch.randint(0, CLASSES, (5, 7), generator=generator).numpy().astype(np.uint8)
    label_hw[1, 2:5] = IGNORE
    return probability_hkw, label_hw


@pytest.mark.parametrize("seed", range(3))
def test_unsure_is_the_entropy_by_the_largest_entropy(seed: int) -> None:
    probability_hkw, _ = some_probabilities(seed)
    value_hw = unsure(probability_hkw)
    for y in range(5):
        for x in range(7):
            entropy = -sum(p * math.log(p) for p in probability_hkw[y, :, x].tolist())
            assert value_hw[y, x].item() == pytest.approx(entropy / math.log(CLASSES), abs=1e-5)


def test_the_surest_and_the_least_sure_network_have_0_and_1() -> None:
    sure_hkw = torch.eye(CLASSES)[None]
    assert unsure(sure_hkw).tolist() == [[0.0] * CLASSES]
    assert unsure(torch.full((2, CLASSES, 3), 1 / CLASSES)).tolist() == [[1.0] * 3] * 2
    assert unsure(torch.ones(2, 1, 3)).tolist() == [[0.0] * 3] * 2, "one class only"


@pytest.mark.parametrize("seed", range(3))
def test_contradiction_is_the_gap_between_the_classes_and_0_on_void(seed: int) -> None:
    probability_hkw, label_hw = some_probabilities(seed)
    value_hw = contradicts(probability_hkw, torch.from_numpy(label_hw))
    for y in range(5):
        for x in range(7):
            p = probability_hkw[y, :, x].tolist()
            label = int(label_hw[y, x])
            gap = 0.0 if label == IGNORE else max(p) - p[label]
            assert value_hw[y, x].item() == pytest.approx(gap, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_disagreement_is_the_mean_of_the_smallest_values_around_each_pixel(seed: int) -> None:
    probability_hkw, label_hw = some_probabilities(seed)
    value_hw = contradicts(probability_hkw, torch.from_numpy(label_hw)).numpy()
    value_hw[2:, 2:] += 0.3  # else nothing is left within the borders of so small an image
    total = 0.0
    for y in range(5):
        for x in range(7):
            around = [
                value_hw[v, u]
                for v in range(max(0, y - 1), min(5, y + 2))
                for u in range(max(0, x - 1), min(7, x + 2))
            ]
            total += min(around)
    assert total > 0
    judged = Judged(label_hw, value_hw)
    labelled = int((label_hw != IGNORE).sum())
    assert disagreement(judged, label_hw) == pytest.approx(total / labelled, rel=1e-5)


def test_a_border_does_not_count_and_an_area_does() -> None:
    border_hw, area_hw = np.zeros((200, 200), np.float32), np.zeros((200, 200), np.float32)
    border_hw[:, 98:102] = 1  # 800 pixels
    area_hw[50:78, 50:78] = 1  # 784 pixels
    assert within_borders(border_hw).sum() == 0
    assert within_borders(area_hw).sum() == 24 * 24


def test_the_main_contradiction_is_the_pair_with_the_largest_sum() -> None:
    label_hw = np.array([[0, 0, 0, 1, 1, IGNORE]], np.uint8)
    predicted_hw = np.array([[2, 2, 0, 3, 1, 0]], np.uint8)
    value_hw = np.array([[0.3, 0.3, 0.0, 0.5, 0.0, 0.0]], np.float32)
    assert main_contradiction(Judged(predicted_hw, value_hw), label_hw, CLASSES) == (0, 2)


@pytest.mark.parametrize("seed", range(5))
def test_the_order_is_that_of_the_mean_rank(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, 6, (2, 9)).tolist()  # with equal figures

    def slow_rank(column: list[int], place: int) -> float:
        larger = sum(other > column[place] for other in column)
        equal = sum(other == column[place] for other in column)
        return larger + (equal + 1) / 2

    mean = [sum(slow_rank(column, place) for column in columns) for place in range(9)]
    wanted = sorted(range(9), key=lambda place: (mean[place], -columns[0][place], place))
    assert order_by_ranks(columns) == wanted


def test_a_distance_is_to_the_nearest_by_what_is_usual() -> None:
    torch.manual_seed(0)
    train_md, new_nd = torch.randn(6, 3), torch.randn(4, 3)
    nearest = [min(math.dist(a, b) for b in train_md.tolist()) for a in new_nd.tolist()]
    listed = train_md.tolist()
    usual = sorted(min(math.dist(a, b) for b in listed if b is not a) for a in listed)[2]
    wanted = [one / usual for one in nearest]
    assert distances(new_nd, train_md).tolist() == pytest.approx(wanted, rel=1e-4)


def test_distances_are_finite_with_one_training_image_or_equal_ones() -> None:
    one_md = torch.zeros(1, 3)
    assert distances(torch.ones(2, 3), one_md).tolist() == pytest.approx([3**0.5] * 2)
    assert torch.isfinite(distances(torch.ones(2, 3), torch.zeros(4, 3))).all()
