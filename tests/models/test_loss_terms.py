"""Each term of the loss, against a slow and obvious version."""

from collections.abc import Callable
from statistics import mean

import pytest
import torch
from torch import Tensor

from reconet.models.loss_terms import PIXEL_TERMS, REGION_TERMS, cross_entropy, dice, focal, lovasz

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


@pytest.mark.parametrize("term", REGION_TERMS.values(), ids=REGION_TERMS)
def test_region_terms_are_0_for_a_perfect_prediction_and_1_for_a_wrong_one(term: Region) -> None:
    label_n = torch.tensor([0, 0, 1, 2, 2])
    right_kn = torch.nn.functional.one_hot(label_n, CLASSES).double().T
    assert term(right_kn, label_n) == 0
    assert term(right_kn.roll(1, 0), label_n) == pytest.approx(1)


def test_lovasz_of_a_hard_prediction_is_one_minus_the_mean_iou() -> None:
    label_n = torch.tensor([0, 0, 0, 1, 1, 2])
    predicted_n = torch.tensor([0, 1, 0, 1, 2, 2])
    hard_kn = torch.nn.functional.one_hot(predicted_n, CLASSES).double().T
    assert lovasz(hard_kn, label_n).item() == pytest.approx(1 - (2 / 3 + 1 / 3 + 1 / 2) / 3)


@pytest.mark.parametrize("term", REGION_TERMS.values(), ids=REGION_TERMS)
@pytest.mark.parametrize("absent", [(), (1,)])
def test_gradients_of_region_terms_are_those_of_small_differences(
    term: Region, absent: tuple[int, ...]
) -> None:
    logits_kn, label_n = regions(9, absent)
    logits_kn.requires_grad_()
    assert torch.autograd.gradcheck(lambda x_kn: term(x_kn.softmax(0), label_n), [logits_kn])


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


@pytest.mark.parametrize("name", PIXEL_TERMS)
def test_gradients_of_pixel_terms_are_those_of_small_differences(name: str) -> None:
    logits_bkhw = torch.randn(1, CLASSES, 2, 3, dtype=torch.double, requires_grad=True)
    label_bhw = torch.tensor([[[0, 1, 255], [3, 255, 1]]])
    weight_k = torch.tensor([1.0, 2.0, 0.5, 3.0])
    assert torch.autograd.gradcheck(
        lambda x_bkhw: PIXEL_TERMS[name](x_bkhw, label_bhw, weight_k, 1.5), [logits_bkhw]
    )


def test_focal_has_gradients_where_the_network_is_sure() -> None:
    # In single precision, 1 - p is 0 here, and the derivative of a power of it may be infinite.
    logits_bkhw = torch.tensor([200.0, -200.0]).view(1, 2, 1, 1).requires_grad_()
    focal(logits_bkhw, torch.zeros(1, 1, 1), None, 1.0).sum().backward()
    assert logits_bkhw.grad is not None
    assert logits_bkhw.grad.isfinite().all()
    assert cross_entropy(logits_bkhw, torch.zeros(1, 1, 1), None).item() == 0
