"""ACFNet's class features, against slow versions."""

import pytest
import torch

from reconet.models.context.acfnet import ACFNet, class_centres, class_features
from reconet.models.losses import side_loss
from tests.models.context.helpers import features, stages

SIZE = (3, 4)
STAGES = stages(64, SIZE)


def test_class_features_equal_a_loop_over_classes_and_pixels() -> None:
    feature_bchw, p_bkhw = torch.randn(2, 5, *SIZE), torch.randn(2, 3, *SIZE).softmax(1)
    expected = torch.zeros_like(feature_bchw)
    pixels = [(y, x) for y in range(SIZE[0]) for x in range(SIZE[1])]
    for b in range(2):
        for k in range(3):
            total = sum(p_bkhw[b, k, y, x] * feature_bchw[b, :, y, x] for y, x in pixels)
            centre_c = total / sum(p_bkhw[b, k, y, x] for y, x in pixels)
            for y, x in pixels:
                expected[b, :, y, x] += p_bkhw[b, k, y, x] * centre_c
    torch.testing.assert_close(class_features(feature_bchw, p_bkhw), expected)


def test_without_a_preference_every_pixel_gets_the_mean() -> None:
    feature_bchw = torch.randn(2, 5, *SIZE)
    result = class_features(feature_bchw, torch.full((2, 4, *SIZE), 0.25))
    torch.testing.assert_close(
        result, feature_bchw.mean(dim=(2, 3), keepdim=True).expand_as(result)
    )


def test_hard_predictions_give_each_pixel_the_mean_of_its_class_and_an_absent_class_no_nan() -> (
    None
):
    feature_bchw = torch.randn(1, 5, *SIZE)
    class_hw = torch.randint(0, 2, SIZE)  # of 3 classes: the last has no pixel
    one_hot_bkhw = torch.nn.functional.one_hot(class_hw, 3).permute(2, 0, 1)[None].float()
    result = class_features(feature_bchw, one_hot_bkhw)
    for k in range(2):
        mean_c = feature_bchw[0, :, class_hw == k].mean(1)
        torch.testing.assert_close(
            result[0, :, class_hw == k], mean_c[:, None].expand(-1, int((class_hw == k).sum()))
        )
    centre_bck = class_centres(feature_bchw.flatten(2), one_hot_bkhw.flatten(2))
    assert not centre_bck[0, :, 2].any()


@pytest.mark.parametrize("detach", [False, True])
def test_the_coarse_prediction_learns_from_the_main_loss_unless_detached(detach: bool) -> None:
    context = ACFNet(STAGES, num_classes=3, detach=detach)
    context(features(STAGES)).map_bdhw.square().sum().backward()
    gradient = context.classify_coarse.weight.grad
    assert (gradient is None) if detach else (gradient is not None and bool(gradient.any()))


def test_the_loss_is_the_weighted_coarse_one() -> None:
    context = ACFNet(STAGES, num_classes=3, coarse_weight=0.5)
    assert context.eval()(features(STAGES)).extra == {}
    extra = context.train()(features(STAGES)).extra
    label_bhw = torch.randint(0, 3, (2, 12, 16))
    expected = 0.5 * side_loss(extra["coarse"], label_bhw)
    torch.testing.assert_close(context.loss(extra, label_bhw), expected)


def test_dropout_of_class_features_acts_on_what_the_classes_are_made_of() -> None:
    context = ACFNet(STAGES, num_classes=3, class_dropout=1.0)
    x_bchw = torch.randn(2, context.out_channels, *SIZE)
    assert not context.project(x_bchw).any()
    assert context.eval().project(x_bchw).any()
