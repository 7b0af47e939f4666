"""Intervals cover the truth as often as they say, and a temperature mends confidences."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from reconet.evaluation import intervals
from reconet.evaluation.calibration import Reliability
from reconet.evaluation.intervals import ImageCounts, differences, interval, mean_iou
from reconet.inference.windows import best_class, tempered

IMAGES, CLASSES, DATASETS = 100, 5, 1000


def draw(rng: np.random.Generator, images: int, *, better: float = 0.0) -> NDArray[np.int64]:
    """Draw counts of images that are hard or easy as a whole, with some classes in each."""
    size_nk = rng.gamma(1.0, 1000, (images, CLASSES)) * (rng.random((images, CLASSES)) < 0.4)
    size_nk[:, 0] += rng.gamma(2, 2000, images)
    easy_n = rng.beta(5, 2, images)
    right_nk = np.clip(easy_n[:, None] * rng.beta(8, 2, (images, CLASSES)) + better, 0, 1)
    hit_nk = size_nk * right_nk
    wrong_n1 = (size_nk - hit_nk).sum(1, keepdims=True)
    found_nk = hit_nk + wrong_n1 * rng.dirichlet(np.ones(CLASSES), images)
    return np.stack([hit_nk, size_nk, found_nk], 1).astype(np.int64)


def pair(seed: int, images: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw two networks on the same images: the second is right a little more often."""
    return tuple(  # type: ignore[return-value]
        draw(np.random.default_rng(seed), images, better=better) for better in (0.0, 0.03)
    )


def test_intervals_cover_the_truth_in_93_to_97_of_100_datasets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    truth, better = (float(mean_iou(n3k.sum(0).astype(float))) for n3k in pair(10**6, 300_000))
    drawn = list(intervals.draws(IMAGES))  # the same for every dataset, so they are drawn once
    monkeypatch.setattr(intervals, "draws", lambda _: iter(drawn))
    covered, covered_gain = 0, 0
    for seed in range(DATASETS):
        before, after = pair(seed, IMAGES)
        one, (difference,) = interval(before), differences(before, after)
        covered += int(one.low <= truth <= one.high)
        covered_gain += int(difference.low <= better - truth <= difference.high)
    assert 0.93 <= covered / DATASETS <= 0.97
    assert 0.93 <= covered_gain / DATASETS <= 0.97


def test_a_bootstrap_is_what_a_slow_loop_draws() -> None:
    counts = draw(np.random.default_rng(1), 6)
    slow: list[float] = []
    for times_rn in intervals.draws(6):
        for times_n in times_rn:
            total_3k = np.zeros((3, CLASSES))
            for counts_3k, times in zip(counts, times_n, strict=True):
                total_3k += times * counts_3k
            union_k = total_3k[1] + total_3k[2] - total_3k[0]
            slow.append(float((total_3k[0] / union_k)[union_k > 0].mean()))
    np.testing.assert_allclose(intervals.resampled(counts, mean_iou), slow)


def test_a_network_does_not_differ_from_itself() -> None:
    counts = draw(np.random.default_rng(1), 30)
    (same,) = differences(counts, counts)
    assert (same.value, same.low, same.high) == (0, 0, 0)
    assert not same.excludes_zero


def test_a_single_image_has_an_interval_of_no_width() -> None:
    one = interval(draw(np.random.default_rng(1), 1))
    assert one.low == one.value == one.high


def test_counts_of_images_come_back_from_their_file(tmp_path: Path) -> None:
    rng, kept = np.random.default_rng(0), ImageCounts(3)
    matrices = [rng.integers(0, 3, (3, 3)) for _ in range(4)]
    for number, count_kk in enumerate(matrices):
        kept.add(f"image {number}", count_kk, rng.integers(0, 9, (3, 3)))
    path = tmp_path / "counts.npz"
    kept.save(path, "voc12 val")
    found = ImageCounts.load(path, "voc12 val")
    assert found is not None
    assert found.names == kept.names
    expected = [[m.diagonal(), m.sum(1), m.sum(0)] for m in matrices]
    np.testing.assert_array_equal(found.regions(), expected)
    np.testing.assert_array_equal(found.edges(), kept.edges())
    assert ImageCounts.load(path, "voc12 train") is None
    with np.load(path) as file:
        arrays = dict(file)
    for name, spoilt in {
        "entries": arrays["entries"] + 3,  # classes that there are not
        "lengths": arrays["lengths"] + 1,
        "boundaries": arrays["boundaries"][:, :2],
        "names": arrays["names"][:-1],
        "classes": np.array("many"),
    }.items():
        np.savez(path, **arrays | {name: spoilt})
        assert ImageCounts.load(path, "voc12 val") is None, name
    np.savez(path, **arrays)
    assert ImageCounts.load(path, "voc12 val") is not None
    path.write_bytes(path.read_bytes()[:100])
    assert ImageCounts.load(path, "voc12 val") is None


def test_a_temperature_restores_the_calibration_of_overconfident_logits() -> None:
    random = torch.Generator().manual_seed(3)
    reliability = Reliability(images=60, classes=7)
    for image in range(60):
        logits_nk = 1.5 * torch.randn(4000, 7, generator=random)
        label_n = torch.multinomial(logits_nk.softmax(1), 1, generator=random)[:, 0]
        label_n[:50] = 255
        probability_nk1 = (2.5 * logits_nk).softmax(1)[..., None]
        label_n1 = label_n[:, None]
        for rows in (slice(0, 1000), slice(1000, 4000)):
            part_nk1 = probability_nk1[rows]
            reliability.add(image, part_nk1, label_n1[rows], best_class(part_nk1), 4000)
    found = reliability.result()
    assert found is not None
    assert found.ece > 0.2
    assert found.temperature == pytest.approx(2.5, rel=0.03)
    assert found.ece_with < 0.01


def test_a_calibration_error_is_what_a_slow_loop_counts() -> None:
    random = torch.Generator().manual_seed(1)
    probability_hkw = (3 * torch.randn(30, 4, 40, generator=random)).softmax(1)
    label_hw = torch.randint(4, (30, 40), generator=random)
    label_hw[:5] = 255
    reliability = Reliability(images=2, classes=4)
    for image in (0, 1):
        reliability.add(image, probability_hkw, label_hw, best_class(probability_hkw), 30)
    found = reliability.result()
    assert found is not None
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(15)]
    for probability_k, label in zip(
        probability_hkw.transpose(1, 2).reshape(-1, 4), label_hw.flatten(), strict=True
    ):
        if label != 255:
            confidence, predicted = probability_k.max(0)
            bins[min(14, int(confidence * 15))].append((confidence.item(), predicted == label))
    pixels = sum(map(len, bins))
    gaps = [abs(sum(c for c, _ in one) - sum(r for _, r in one)) for one in bins]
    assert found.ece == pytest.approx(sum(gaps) / pixels)
    assert found.share == pytest.approx([len(one) / pixels for one in bins])
    for accuracy, one in zip(found.accuracy, bins, strict=True):
        expected = sum(right for _, right in one) / len(one) if one else None
        assert accuracy == (None if expected is None else pytest.approx(expected))


def test_a_temperature_changes_no_label() -> None:
    probability_nk = torch.randn(500, 7, generator=torch.Generator().manual_seed(0)).softmax(1)
    assert torch.equal(probability_nk.argmax(1), tempered(probability_nk, 2.0).argmax(1))
    torch.testing.assert_close(tempered(probability_nk, 1.0), probability_nk)
