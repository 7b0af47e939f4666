"""The loss: its terms against slow versions, and sums that agree however a batch is split."""

from collections.abc import Callable
from statistics import mean
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from reconet.models import Logits
from reconet.models.losses import (
    cross_entropy,
    dice,
    focal,
    lovasz,
    segmentation_loss,
    side_loss,
    step_counts,
)
from reconet.recipes import Loss

TERMS: list[dict[str, Any]] = [
    {},
    {"cross_entropy": 0, "focal": 1},
    {"cross_entropy": 0, "dice": 1},
    {"cross_entropy": 0, "lovasz": 1},
    {"focal": 0.5, "dice": 2, "lovasz": 0.7},
]


@pytest.fixture
def label_bhw() -> Tensor:
    label_bhw = torch.randint(0, 5, (4, 6, 7), dtype=torch.uint8)
    label_bhw[0, :3] = 255
    label_bhw[3] = 255  # one image is void only
    return label_bhw


@pytest.fixture
def logits() -> Logits:
    return Logits(torch.randn(4, 5, 6, 7), torch.randn(4, 5, 6, 7), {})


def test_the_loss_is_the_mean_over_valid_pixels_plus_the_weighted_auxiliary(
    logits: Logits, label_bhw: Tensor
) -> None:
    assert logits.aux_bkhw is not None
    main = F.cross_entropy(logits.main_bkhw, label_bhw.long(), ignore_index=255)
    aux = F.cross_entropy(logits.aux_bkhw, label_bhw.long(), ignore_index=255)
    torch.testing.assert_close(segmentation_loss(logits, label_bhw), main + 0.2 * aux)
    without = Logits(logits.main_bkhw, None, {})
    torch.testing.assert_close(segmentation_loss(without, label_bhw), main)


@pytest.mark.parametrize("terms", TERMS)
def test_parts_of_a_batch_add_up_to_the_loss_of_the_whole(
    logits: Logits, label_bhw: Tensor, terms: dict[str, Any]
) -> None:
    counts_2, settings = step_counts(label_bhw), Loss(**terms, ohem=0.3, ohem_min_kept=5)
    parts = [
        segmentation_loss(
            Logits(logits.main_bkhw[i : i + 1], logits.aux_bkhw[i : i + 1], {}),  # type: ignore[index]
            label_bhw[i : i + 1],
            settings,
            counts_2=counts_2,
        )
        for i in range(4)
    ]
    whole = segmentation_loss(logits, label_bhw, settings)
    torch.testing.assert_close(torch.stack(parts).sum(), whole)


@pytest.mark.parametrize("terms", TERMS)
def test_a_batch_of_void_only_has_zero_loss_and_finite_gradients(terms: dict[str, Any]) -> None:
    main_bkhw = torch.randn(1, 3, 4, 4, requires_grad=True)
    label_bhw = torch.full((1, 4, 4), 255, dtype=torch.uint8)
    loss = segmentation_loss(Logits(main_bkhw, None, {}), label_bhw, Loss(**terms))
    loss.backward()
    assert loss == 0
    assert main_bkhw.grad is not None
    assert (main_bkhw.grad == 0).all()


def test_class_weights_agree_with_torch(logits: Logits, label_bhw: Tensor) -> None:
    weight_k = torch.rand(5) + 0.5
    only_main = Logits(logits.main_bkhw, None, {})
    expected = F.cross_entropy(
        logits.main_bkhw, label_bhw.long(), weight=weight_k, ignore_index=255
    )
    loss = segmentation_loss(only_main, label_bhw, class_weight_k=weight_k)
    torch.testing.assert_close(loss, expected)


def slow_ohem(main_bkhw: Tensor, label_bhw: Tensor, threshold: float, min_kept: int) -> float:
    """Keep hard pixels image by image: sort by the probability of the true class."""
    total, count = 0.0, 0
    for logits_khw, label_hw in zip(main_bkhw, label_bhw, strict=True):
        probabilities = sorted(
            logits_khw[:, y, x].softmax(0)[int(label_hw[y, x])].item()
            for y in range(label_hw.shape[0])
            for x in range(label_hw.shape[1])
            if label_hw[y, x] != 255
        )
        count += len(probabilities)
        for index, p in enumerate(probabilities):
            if p < threshold or index < min_kept:
                total -= torch.tensor(p).log().item()
    return total / count


@pytest.mark.parametrize(("threshold", "min_kept"), [(0.2, 0), (0.2, 10), (0.0, 7), (1.0, 0)])
def test_ohem_keeps_the_hard_pixels_and_at_least_so_many(
    logits: Logits, label_bhw: Tensor, threshold: float, min_kept: int
) -> None:
    loss = segmentation_loss(
        Logits(logits.main_bkhw, None, {}),
        label_bhw,
        Loss(ohem=threshold, ohem_min_kept=min_kept),
    )
    expected = slow_ohem(logits.main_bkhw, label_bhw, threshold, min_kept)
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_bf16_logits_are_summed_in_full_precision() -> None:
    main_bkhw = torch.randn(1, 3, 64, 64).bfloat16()
    label_bhw = torch.randint(0, 3, (1, 64, 64))
    loss = segmentation_loss(Logits(main_bkhw, None, {}), label_bhw)
    exact = segmentation_loss(Logits(main_bkhw.float(), None, {}), label_bhw)
    assert loss.dtype == torch.float
    torch.testing.assert_close(loss, exact)


def test_a_loss_is_the_weighted_sum_of_its_terms_for_both_classifiers(
    logits: Logits, label_bhw: Tensor
) -> None:
    def alone(**terms: Any) -> Tensor:
        return segmentation_loss(logits, label_bhw, Loss(**{"cross_entropy": 0, **terms}))

    whole = alone(cross_entropy=0.5, focal=2, dice=3, lovasz=0.1)
    parts = 0.5 * alone(cross_entropy=1) + 2 * alone(focal=1) + 3 * alone(dice=1)
    torch.testing.assert_close(whole, parts + 0.1 * alone(lovasz=1))


def test_images_without_a_label_do_not_count_in_the_mean_of_regions() -> None:
    main_bkhw = torch.randn(2, 3, 4, 5)
    label_bhw = torch.randint(0, 3, (2, 4, 5))
    label_bhw[1] = 255
    settings = Loss(cross_entropy=0, dice=1)
    both = segmentation_loss(Logits(main_bkhw, None, {}), label_bhw, settings)
    first = segmentation_loss(Logits(main_bkhw[:1], None, {}), label_bhw[:1], settings)
    torch.testing.assert_close(both, first)


def test_class_weights_weigh_pixels_and_not_regions(logits: Logits, label_bhw: Tensor) -> None:
    weight_k = torch.rand(5) + 0.5
    regions = Loss(cross_entropy=0, dice=1, lovasz=1)
    weighted = segmentation_loss(logits, label_bhw, regions, class_weight_k=weight_k)
    torch.testing.assert_close(weighted, segmentation_loss(logits, label_bhw, regions))


CLASSES = 4
Region = Callable[[Tensor, Tensor], Tensor]


def regions(pixels: int, absent: tuple[int, ...] = (), seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw the logits and labels of one image, in which some classes are absent."""
    generator = torch.Generator().manual_seed(seed)
    logits_kn = torch.randn(CLASSES, pixels, generator=generator, dtype=torch.double)
    present_p = torch.tensor([k for k in range(CLASSES) if k not in absent])
    chosen_n = torch.randint(len(present_p), (pixels,), generator=generator)
    return logits_kn, present_p[chosen_n]


def slow_dice(probability_kn: Tensor, label_n: Tensor) -> float:
    losses: list[float] = []
    for k in range(CLASSES):
        truth = [float(label == k) for label in label_n.tolist()]
        if any(truth):
            found = probability_kn[k].tolist()
            common = sum(t * p for t, p in zip(truth, found, strict=True))
            losses.append(1 - 2 * common / (sum(truth) + sum(found)))
    return mean(losses)


def jaccard_loss(wrong: set[int], truth: set[int]) -> float:
    """Return 1 - IoU of a class whose prediction is wrong at these pixels."""
    predicted = truth ^ wrong
    return 1 - len(truth & predicted) / len(truth | predicted)


def slow_lovasz(probability_kn: Tensor, label_n: Tensor) -> float:
    """Interpolate 1 - IoU between sets of wrong pixels, as the Lovasz extension is defined."""
    losses: list[float] = []
    for k in range(CLASSES):
        truth = {i for i, label in enumerate(label_n.tolist()) if label == k}
        if not truth:
            continue
        found = probability_kn[k].tolist()
        errors = {i: 1 - p if i in truth else p for i, p in enumerate(found)}
        order = sorted(errors, key=lambda i: -errors[i])
        below = [*(errors[i] for i in order[1:]), 0.0]
        losses.append(
            sum(
                jaccard_loss(set(order[: j + 1]), truth) * (errors[i] - next_error)
                for j, (i, next_error) in enumerate(zip(order, below, strict=True))
            )
        )
    return mean(losses)


@pytest.mark.parametrize(("term", "slow"), [(dice, slow_dice), (lovasz, slow_lovasz)])
@pytest.mark.parametrize(("pixels", "absent"), [(13, ()), (13, (2,)), (7, (0, 1, 3)), (1, ())])
def test_region_terms_agree_with_their_definition(
    term: Region, slow: Callable[[Tensor, Tensor], float], pixels: int, absent: tuple[int, ...]
) -> None:
    for seed in range(3):
        logits_kn, label_n = regions(pixels, absent, seed)
        probability_kn = logits_kn.softmax(0)
        expected = slow(probability_kn, label_n)
        assert term(probability_kn, label_n).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("gamma", [1.0, 2.0, 3.5])
def test_focal_is_the_cross_entropy_times_a_power_of_the_doubt(gamma: float) -> None:
    logits_bkhw = torch.randn(2, CLASSES, 3, 5, dtype=torch.double)
    label_bhw = torch.randint(0, CLASSES, (2, 3, 5))
    label_bhw[0, 1] = 255
    weight_k = torch.tensor([1.0, 2.0, 0.5, 3.0])
    loss_bhw = focal(logits_bkhw, label_bhw, weight_k, gamma)
    for b, h, w in torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(5)).tolist():
        label = int(label_bhw[b, h, w])
        expected = 0.0
        if label != 255:
            p = logits_bkhw[b, :, h, w].softmax(0)[label]
            expected = float(-weight_k[label] * (1 - p) ** gamma * p.log())
        assert loss_bhw[b, h, w].item() == pytest.approx(expected, rel=1e-9)


def test_focal_has_gradients_where_the_network_is_sure() -> None:
    # In single precision, 1 - p is 0 here, and the derivative of a power of it may be infinite.
    logits_bkhw = torch.tensor([200.0, -200.0]).view(1, 2, 1, 1).requires_grad_()
    focal(logits_bkhw, torch.zeros(1, 1, 1), None, 1.0).sum().backward()
    assert logits_bkhw.grad is not None
    assert logits_bkhw.grad.isfinite().all()
    assert cross_entropy(logits_bkhw, torch.zeros(1, 1, 1), None).item() == 0


def test_side_loss_is_the_mean_over_images_of_the_mean_over_their_labelled_pixels() -> None:
    logits_bkhw, label_bhw = torch.randn(3, 3, 2, 3), torch.randint(0, 3, (3, 4, 6))
    label_bhw[0, :, :4] = 255
    label_bhw[2] = 255
    logits_bkhw.requires_grad_()
    full_bkhw = F.interpolate(logits_bkhw, (4, 6), mode="bilinear", align_corners=False)
    means = []
    for full_khw, label_hw in zip(full_bkhw[:2], label_bhw[:2], strict=True):
        places = (label_hw != 255).nonzero().tolist()
        terms = [-full_khw[:, y, x].log_softmax(0)[label_hw[y, x]] for y, x in places]
        means.append(torch.stack(terms).mean())
    torch.testing.assert_close(side_loss(logits_bkhw, label_bhw), sum(means) / torch.tensor(3))
    side_loss(logits_bkhw, torch.full_like(label_bhw, 255)).backward()
    assert logits_bkhw.grad is not None  # other processes wait for it
    assert not logits_bkhw.grad.any()
