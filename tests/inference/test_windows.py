"""Windows, scales and mirror images, against slow and obvious versions."""

import subprocess
import sys
from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from benchmarks.evaluate import windows
from reconet.inference.protocol import WHOLE, Protocol, scale_part, window_grid
from reconet.inference.windows import predict_labels, predict_probabilities, probability_bands
from reconet.types import MEAN_COLOUR
from tests.factories import tiny_model

SIDE = st.integers(1, 40)
MULTI = Protocol(base_size=40, crop=(24, 16), scales=(0.4, 1.0, 1.7), flip=True)


def image(height: int, width: int) -> Tensor:
    return torch.randint(0, 256, (height, width, 3), dtype=torch.uint8)


def pixelwise(image_bchw: Tensor) -> Tensor:
    """Compute the logits of a pixel from its colour alone."""
    colour_bchw = image_bchw.float() / 64
    return torch.cat([colour_bchw, colour_bchw.sum(1, keepdim=True).sin()], 1)


def blurred(image_bchw: Tensor) -> Tensor:
    """Look at neighbours, at half the resolution. Left and right differ."""
    weight_kc33 = torch.linspace(-1, 1, 5 * 27).view(5, 3, 3, 3)
    return F.conv2d(image_bchw.float() / 255, weight_kc33, stride=2, padding=1)


def test_the_short_side_may_be_what_a_scale_of_one_means() -> None:
    protocol = Protocol(mode="whole", relative_to="short_side", base_size=512)
    rows, columns = window_grid((375, 500), 1.0, protocol)
    assert (rows.scaled, columns.scaled) == (512, 683)
    rows, columns = window_grid((500, 375), 0.5, protocol)
    assert (rows.scaled, columns.scaled) == (341, 256)
    rows, columns = window_grid((100, 1000), 1.0, protocol)  # a panorama
    assert (rows.scaled, columns.scaled) == (205, 2048)
    assert "scale 1 of a short side of 512" in str(protocol)


@pytest.mark.parametrize("scaled", [(37, 53), (20, 53), (37, 29), (80, 100), (50, 30), (9, 12)])
def test_a_scaled_image_is_that_of_opencv(scaled: tuple[int, int]) -> None:
    # Bilinear, or the mean over the area where an axis shrinks to less than half.
    image_hwc = np.random.default_rng(0).integers(0, 256, (37, 53, 3), np.uint8)
    how = cv2.INTER_AREA if scaled == (9, 12) else cv2.INTER_LINEAR
    expected = cv2.resize(image_hwc.astype(np.float32), scaled[::-1], interpolation=how)
    image_chw = torch.from_numpy(image_hwc).permute(2, 0, 1)
    got_chw = scale_part(image_chw, scaled, (0, scaled[0]), (0, scaled[1]))
    difference = (got_chw.permute(1, 2, 0).float() - torch.from_numpy(expected)).abs()
    assert difference.max() <= 0.51  # rounded to bytes


@pytest.mark.parametrize("size", [(50, 61), (24, 16), (9, 40), (1, 1)])
def test_windows_of_a_pixelwise_function_equal_the_whole_image(size: tuple[int, int]) -> None:
    image_hwc = image(*size)
    slide = Protocol(relative_to="original", crop=(24, 16))
    whole_hkw = predict_probabilities(pixelwise, image_hwc, WHOLE, 4)
    torch.testing.assert_close(predict_probabilities(pixelwise, image_hwc, slide, 4), whole_hkw)
    direct_bkhw = pixelwise(image_hwc.permute(2, 0, 1)[None]).softmax(1)
    torch.testing.assert_close(whole_hkw, direct_bkhw[0])


def test_a_whole_image_is_what_the_network_says_of_it() -> None:
    model = tiny_model(crop=(64, 64)).eval()
    image_hwc = image(45, 71)
    with torch.no_grad():
        expected_bkhw = model(image_hwc.permute(2, 0, 1)[None]).main_bkhw.softmax(1)
    got_khw = predict_probabilities(model.coarse, image_hwc, WHOLE, 3)
    torch.testing.assert_close(got_khw, expected_bkhw[0])
    assert torch.equal(predict_labels(model.coarse, image_hwc, WHOLE, 3), got_khw.argmax(0).byte())


def obvious(image_hwc: Tensor, protocol: Protocol, classes: int) -> Tensor:
    """Average scale by scale, mirror image by mirror image, window by window, pixel by pixel."""
    height, width = image_hwc.shape[:2]
    total_khw = torch.zeros(classes, height, width)
    for scale in protocol.scales:
        zoom = scale * protocol.base_size / max(height, width)
        tall, wide = round(height * zoom), round(width * zoom)
        how = cv2.INTER_AREA if zoom < 0.5 else cv2.INTER_LINEAR
        scaled_hwc = cv2.resize(image_hwc.float().numpy(), (wide, tall), interpolation=how)
        image_bchw = torch.from_numpy(scaled_hwc).permute(2, 0, 1)[None]
        for mirrored in (False, True):
            total_khw += one_view(image_bchw.round().byte(), mirrored, protocol, classes, total_khw)
    return total_khw / len(protocol.scales) / 2


def one_view(
    image_bchw: Tensor, mirrored: bool, protocol: Protocol, classes: int, like_khw: Tensor
) -> Tensor:
    size = (image_bchw.shape[2], image_bchw.shape[3])
    stride = (2 * protocol.crop[0] // 3, 2 * protocol.crop[1] // 3)
    sum_khw, count_hw = torch.zeros_like(like_khw), torch.zeros_like(like_khw[0])
    for rows, columns in windows(size, protocol.crop, stride):
        padded = torch.tensor(MEAN_COLOUR, dtype=torch.uint8)[None, :, None, None]
        window = padded.repeat(1, 1, *protocol.crop)
        inside = image_bchw[:, :, rows, columns]
        window[:, :, : inside.shape[2], : inside.shape[3]] = inside
        logits = blurred(window.flip(-1)).flip(-1) if mirrored else blurred(window)
        for y in range(like_khw.shape[1]):
            for x in range(like_khw.shape[2]):
                down = (y + 0.5) * size[0] / like_khw.shape[1] - rows.start
                right = (x + 0.5) * size[1] / like_khw.shape[2] - columns.start
                if 0 <= down < protocol.crop[0] and 0 <= right < protocol.crop[1]:
                    place = torch.tensor([right / protocol.crop[1], down / protocol.crop[0]])
                    read = F.grid_sample(
                        logits,
                        (2 * place - 1).view(1, 1, 1, 2),
                        padding_mode="border",
                        align_corners=False,
                    )
                    sum_khw[:, y, x] += read.flatten().softmax(0)
                    count_hw[y, x] += 1
    return sum_khw / count_hw


def test_scales_windows_and_mirror_images_are_averaged_as_in_the_obvious_loop() -> None:
    image_hwc = image(27, 33)
    expected_khw = obvious(image_hwc, MULTI, 5)
    got_khw = predict_probabilities(blurred, image_hwc, MULTI, 5)
    torch.testing.assert_close(got_khw, expected_khw, atol=2e-3, rtol=0)  # bytes round either way
    assert (got_khw - expected_khw).abs().median() < 1e-6


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 200_000), st.integers(1, 60), st.integers(1, 30))
def test_bands_equal_no_bands(budget: int, height: int, width: int) -> None:
    torch.manual_seed(0)
    image_hwc = image(height, width)
    small = replace(MULTI, budget_bytes=budget, scales=(0.7, 1.3))
    large = replace(small, budget_bytes=2**31)
    got_khw = predict_probabilities(blurred, image_hwc, small, 5)
    torch.testing.assert_close(got_khw, predict_probabilities(blurred, image_hwc, large, 5))


def test_bands_run_no_window_twice_while_there_is_room() -> None:
    seen = 0

    def counting(image_bchw: Tensor) -> Tensor:
        nonlocal seen
        seen += len(image_bchw)
        return blurred(image_bchw)

    image_hwc = image(400, 30)
    small = replace(MULTI, budget_bytes=200_000)
    rows = [rows for rows, _ in probability_bands(counting, image_hwc, small, 5)]
    assert len(rows) > 3
    grids = [window_grid((400, 30), scale, MULTI) for scale in MULTI.scales]
    assert seen == 2 * sum(len(grid.corners()) for grid in grids)


def test_a_whole_image_too_large_for_the_budget_is_cut_into_windows() -> None:
    shapes = []

    def watching(image_bchw: Tensor) -> Tensor:
        shapes.append(tuple(image_bchw.shape[2:]))
        return pixelwise(image_bchw)

    protocol = Protocol(mode="whole", relative_to="original", crop=(24, 16), budget_bytes=256 * 999)
    predict_labels(watching, image(30, 33), protocol, 4)
    assert set(shapes) == {(30, 33)}
    shapes.clear()
    predict_labels(watching, image(30, 34), protocol, 4)
    assert set(shapes) == {(24, 16)}
    assert "over 999 pixels: windows of 24 x 16" in str(protocol)


BIG = """
import resource, sys, torch
from reconet.inference.windows import Protocol, predict_labels
side, budget = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
def peak(): return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
def forward(image_bchw): return torch.nn.functional.avg_pool2d(image_bchw.float(), 8)
image_hwc = torch.zeros(side, side, 3, dtype=torch.uint8)
image_hwc[:, side // 2 :, 1] = 200
image_hwc.add_(1)
protocol = Protocol(relative_to="original", crop=(512, 512), mode=sys.argv[3], budget_bytes=budget)
predict_labels(forward, image_hwc[:1000, :1000], protocol, 3)
before = peak()
label_hw = predict_labels(forward, image_hwc, protocol, 3)
assert label_hw[:, : side // 2 - 600].max() == 0 and label_hw[:, side // 2 + 600 :].min() == 1
print(peak() - before)
"""


def growth(side: int, budget: int, mode: str) -> int:
    command = [sys.executable, "-c", BIG, str(side), str(budget), mode]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_memory_stays_within_the_budget_on_a_big_image() -> None:
    # 6000 x 6000 with three classes: all the probabilities at once would be 432 MB.
    assert growth(6000, 2**27, "whole") < 2**27 + 6000 * 6000  # beside the labels themselves
