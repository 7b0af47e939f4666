from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from reconet.models.features import Logits
from reconet.models.losses import segmentation_loss, step_counts
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


def test_ohem_is_for_the_main_classifier_and_class_weights_are_for_both(
    logits: Logits, label_bhw: Tensor
) -> None:
    assert logits.aux_bkhw is not None
    main, aux = Logits(logits.main_bkhw, None, {}), Logits(logits.aux_bkhw, None, {})
    settings = Loss(ohem=0.1, ohem_min_kept=3)
    hard = segmentation_loss(main, label_bhw, settings)
    both = segmentation_loss(logits, label_bhw, settings)
    torch.testing.assert_close(both, hard + 0.2 * segmentation_loss(aux, label_bhw))
    weight_k = torch.rand(5) + 0.5
    expected = sum(
        factor * segmentation_loss(one, label_bhw, class_weight_k=weight_k)
        for factor, one in ((1.0, main), (0.2, aux))
    )
    torch.testing.assert_close(
        segmentation_loss(logits, label_bhw, class_weight_k=weight_k), expected
    )


def test_small_class_weights_are_normalised_as_well() -> None:
    main_bkhw = torch.randn(1, 2, 1, 2)
    label_bhw = torch.tensor([[[0, 1]]])
    light = segmentation_loss(
        Logits(main_bkhw, None, {}), label_bhw, class_weight_k=torch.tensor([0.1, 0.1])
    )
    torch.testing.assert_close(light, segmentation_loss(Logits(main_bkhw, None, {}), label_bhw))


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


def test_plain_cross_entropy_is_the_default_to_the_bit(logits: Logits, label_bhw: Tensor) -> None:
    assert logits.aux_bkhw is not None
    sums = [
        F.cross_entropy(x_bkhw, label_bhw.long(), ignore_index=255, reduction="none").sum()
        for x_bkhw in (logits.main_bkhw, logits.aux_bkhw)
    ]
    expected = (sums[0] + 0.2 * sums[1]) / (label_bhw != 255).sum()
    assert torch.equal(segmentation_loss(logits, label_bhw), expected)


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
