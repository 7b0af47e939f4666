"""Measure multi-scale evaluation with mirror images and windows, in two ways that run in turns.

    python -m benchmarks.evaluate --backbone resnet50 --crop 256 --classes 21 --rounds 1

    reconet   what `reconet evaluate` does: see reconet/inference/windows.py
    plain     one scale, one mirror image and one window at a time, in eager fp32: run the network,
              softmax at the crop's size, add up at the scaled size, resize, add up

The images are generated. The classifier of the network is fitted in closed form, so that there are
scores to compare. There are two numbers of classes: few, and as many as ADE20K has.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor

from reconet.data import open_dataset
from reconet.data.dataset import Sample
from reconet.data.scenes.generate import CLASSES
from reconet.evaluation.metrics import confusion_matrix, scores
from reconet.inference.network import make_forward
from reconet.inference.protocol import Protocol, window_starts
from reconet.inference.windows import predict_labels
from reconet.models.layers import resize
from reconet.models.segmenter import Segmenter, create_model
from reconet.system.timing import ratios, time_in_turns
from reconet.types import MEAN_COLOUR

SCALES = (0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
SCENE_CLASSES = len(CLASSES)  # the classes that are ever predicted
CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class EvaluateBench:
    """One network with one number of classes, evaluated in both ways."""

    classes: int
    protocol: str
    images: int
    seconds: float  # ours, for one image
    plain_seconds: float
    speedup: float  # median over the rounds, because a busy machine slows both ways alike
    network_share: float  # the part of our time that the network takes
    plain_network_share: float
    miou: float  # %
    plain_miou: float
    same_pixels: float  # fraction of the pixels that get the same class


def bench_evaluate(
    *,
    classes: Sequence[int] = (21, 150),
    backbone: str = "resnet18",
    width: float = 1.0,
    crop: int = 160,
    size: tuple[int, int] | None = None,
    images: int = 2,
    rounds: int = 3,
) -> list[EvaluateBench]:
    """Evaluate in both ways, in turns. The results are medians over the rounds.

    By default the images are as wide as a window, and three quarters as high.
    """
    size = size or (3 * crop // 4, crop)
    val_samples = _scenes("val", size, images)
    train_samples = _scenes("train", size, 16)
    protocol = Protocol(scales=SCALES, flip=True, base_size=max(size), crop=(crop, crop))
    results = []
    for count in classes:
        torch.manual_seed(0)
        model = create_model(
            "reconet", backbone=backbone, width=width, num_classes=count, crop=crop, aux=False
        ).eval()
        fit_classifier(model, train_samples)
        results.append(_bench(model, val_samples, protocol, rounds))
    return results


def _bench(
    model: Segmenter, val_samples: list[Sample], protocol: Protocol, rounds: int
) -> EvaluateBench:
    clocks = {"ours": Clock(make_forward(model, CPU)), "plain": Clock(lambda x: model(x).main_bkhw)}
    ways: dict[str, Callable[[Clock, Tensor], Tensor]] = {
        "ours": lambda clock, image: predict_labels(clock, image, protocol, model.num_classes),
        "plain": lambda clock, image: plain_labels(clock, image, protocol, model.num_classes),
    }
    predicted: dict[str, list[Tensor]] = {}
    images = [torch.from_numpy(sample.image_hwc) for sample in val_samples]

    def call(name: str) -> None:
        clocks[name].rounds.append(0.0)
        predicted[name] = [ways[name](clocks[name], image_hwc) for image_hwc in images]

    seconds = time_in_turns({name: partial(call, name) for name in ways}, rounds)
    shares = {name: median(ratios(clocks[name].rounds[1:], seconds[name])) for name in ways}
    same = [(a == b).float().mean().item() for a, b in zip(*predicted.values(), strict=True)]
    return EvaluateBench(
        classes=model.num_classes,
        protocol=str(protocol),
        images=len(images),
        seconds=median(seconds["ours"]) / len(images),
        plain_seconds=median(seconds["plain"]) / len(images),
        speedup=median(ratios(seconds["plain"], seconds["ours"])),
        network_share=shares["ours"],
        plain_network_share=shares["plain"],
        miou=_miou(val_samples, predicted["ours"], model.num_classes),
        plain_miou=_miou(val_samples, predicted["plain"], model.num_classes),
        same_pixels=sum(same) / len(same),
    )


class Clock:
    """A network that adds up its own time. A caller begins a round by appending a 0."""

    def __init__(self, forward: Callable[[Tensor], Tensor]) -> None:
        self.forward = forward
        self.rounds: list[float] = []

    def __call__(self, image_bchw: Tensor) -> Tensor:
        start = time.perf_counter()
        logits_bkhw = self.forward(image_bchw)
        self.rounds[-1] += time.perf_counter() - start
        return logits_bkhw


@torch.no_grad()
def plain_labels(
    forward: Callable[[Tensor], Tensor], image_hwc: Tensor, protocol: Protocol, num_classes: int
) -> Tensor:
    """Predict by the usual protocol, written in the slow and obvious way."""
    size = (image_hwc.shape[0], image_hwc.shape[1])
    total_bkhw = torch.zeros(1, num_classes, *size)
    for scale in protocol.scales:
        zoom = scale * protocol.base_size / max(size)
        scaled = (round(zoom * size[0]), round(zoom * size[1]))
        image_bchw = resize(image_hwc.permute(2, 0, 1)[None].float(), scaled).round().byte()
        for mirrored in (False, True) if protocol.flip else (False,):
            one_bkhw = _slide(forward, image_bchw, protocol, num_classes, mirrored)
            total_bkhw += resize(one_bkhw, size)
    return total_bkhw.argmax(1)[0]


def _slide(
    forward: Callable[[Tensor], Tensor],
    image_bchw: Tensor,
    protocol: Protocol,
    num_classes: int,
    mirrored: bool,
) -> Tensor:
    height, width = image_bchw.shape[2:]
    padded_bchw = torch.tensor(MEAN_COLOUR, dtype=torch.uint8)[None, :, None, None].repeat(
        1, 1, max(height, protocol.crop[0]), max(width, protocol.crop[1])
    )
    padded_bchw[:, :, :height, :width] = image_bchw
    size = (padded_bchw.shape[2], padded_bchw.shape[3])
    sum_bkhw, count_hw = torch.zeros(1, num_classes, *size), torch.zeros(size)
    stride = (2 * protocol.crop[0] // 3, 2 * protocol.crop[1] // 3)
    for rows, columns in windows(size, protocol.crop, stride):
        window_bchw = padded_bchw[:, :, rows, columns]
        if mirrored:
            probability_bkhw = forward(window_bchw.flip(-1)).softmax(1).flip(-1)
        else:
            probability_bkhw = forward(window_bchw).softmax(1)
        sum_bkhw[:, :, rows, columns] += probability_bkhw
        count_hw[rows, columns] += 1
    return (sum_bkhw / count_hw)[:, :, :height, :width]


def windows(
    size: tuple[int, int], crop: tuple[int, int], stride: tuple[int, int]
) -> list[tuple[slice, slice]]:
    """Return rows and columns of windows that cover an image of `size`.

    An image smaller than the crop gets one window, which is larger than the image.
    """
    tops, lefts = (window_starts(*axis) for axis in zip(size, crop, stride, strict=True))
    return [(slice(y, y + crop[0]), slice(x, x + crop[1])) for y in tops for x in lefts]


@torch.no_grad()
def fit_classifier(model: Segmenter, train_samples: list[Sample], ridge: float = 1e-3) -> None:
    """Fit the classifier to the features of an untrained network by least squares.

    That is enough for a score above chance. Classes that do not occur are never predicted.
    """
    features, truths = [], []
    for sample in train_samples:
        image_bchw = torch.from_numpy(sample.image_hwc).permute(2, 0, 1)[None]
        map_bdij = model.context(model.trunk(image_bchw)).map_bdhw
        label_11hw = torch.from_numpy(sample.label_hw)[None, None].float()
        label_n = F.interpolate(label_11hw, map_bdij.shape[2:], mode="nearest").flatten().long()
        features.append(map_bdij.flatten(2)[0].T[label_n < SCENE_CLASSES])
        truths.append(label_n[label_n < SCENE_CLASSES])
    x_nd, label_n = torch.cat(features).double(), torch.cat(truths)
    mean_d, std_d = x_nd.mean(0), x_nd.std(0) + 1e-9
    x_nd = torch.cat([(x_nd - mean_d) / std_d, torch.ones(len(x_nd), 1)], 1)
    y_nk = F.one_hot(label_n, SCENE_CLASSES).double()
    square_dd = x_nd.T @ x_nd + ridge * len(x_nd) * torch.eye(x_nd.shape[1])
    weight_dk = 10 * torch.linalg.solve(square_dd, x_nd.T @ y_nk)
    weight_kd = weight_dk[:-1].T / std_d
    assert model.classify.bias is not None
    torch.nn.init.zeros_(model.classify.weight)
    torch.nn.init.constant_(model.classify.bias, -10)
    model.classify.weight[:SCENE_CLASSES, :, 0, 0] = weight_kd.float()
    model.classify.bias[:SCENE_CLASSES] = (weight_dk[-1] - weight_kd @ mean_d).float()


def _scenes(split: str, size: tuple[int, int], count: int) -> list[Sample]:
    dataset = open_dataset("scenes", split, None, {"size": list(size), "train": 64, "val": 64})
    return [dataset[index] for index in range(count)]


def _miou(samples: list[Sample], predicted: list[Tensor], num_classes: int) -> float:
    count_kk = torch.zeros(num_classes, num_classes, dtype=torch.int64)
    for sample, predicted_hw in zip(samples, predicted, strict=True):
        count_kk += confusion_matrix(torch.from_numpy(sample.label_hw), predicted_hw, num_classes)
    return 100 * scores(count_kk).mean_iou


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description="Multi-scale evaluation against a plain loop.")
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--crop", type=int, default=160, help="height and width of a window")
    parser.add_argument("--classes", type=int, nargs="+", default=[21, 150])
    parser.add_argument("--rounds", type=int, default=3)
    results = bench_evaluate(**vars(parser.parse_args()))
    print(json.dumps({"networks": [asdict(result) for result in results]}, indent=2))


if __name__ == "__main__":
    main()
