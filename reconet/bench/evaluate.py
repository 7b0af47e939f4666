"""Multi-scale, mirrored, sliding-window evaluation in one run and taking turns:

    reconet   what `reconet evaluate` does: see inference.py
    plain     scale by scale, mirror image by mirror image, window by window, in eager fp32: run the
              network, softmax at the crop's size, add up at the scaled size, resize, add up

on generated images, with a ResNet-18 whose classifier is fitted in closed form, so that there is
a score to compare; with few classes and with as many as ADE20K has.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor

from reconet.data import open_dataset
from reconet.data.dataset import Sample
from reconet.data.scenes.generate import CLASSES
from reconet.data.transforms import MEAN_COLOUR
from reconet.evaluation.metrics import confusion, scores
from reconet.inference.network import in_use
from reconet.inference.protocol import Protocol, starts
from reconet.inference.windows import labels
from reconet.models.layers import resize
from reconet.models.segmenter import Segmenter, create_model
from reconet.system.timing import ratios, time_in_turns

SCALES = (0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
SCENES = len(CLASSES)  # the rest are never said
CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class EvaluateBench:
    """One network with one number of classes, evaluated in both ways."""

    classes: int
    protocol: str
    images: int
    seconds: float  # of ours, for one image
    plain_seconds: float
    speedup: float  # median over the rounds: a busy machine slows both ways alike
    network_share: float  # of our time that passes in the network
    plain_network_share: float
    miou: float  # %
    plain_miou: float
    same_pixels: float  # fraction of the pixels with the same class


def bench_evaluate(
    *,
    classes: tuple[int, ...] = (21, 150),
    backbone: str = "resnet18",
    width: float = 1.0,
    crop: int = 160,
    size: tuple[int, int] = (120, 160),
    images: int = 2,
    rounds: int = 3,
) -> list[EvaluateBench]:
    """The two take turns, so that noise meets both alike; medians over the rounds."""
    shown = samples("val", size, images)
    taught = samples("train", size, 16)
    protocol = Protocol(scales=SCALES, flip=True, base_size=max(size), crop=(crop, crop))
    results = []
    for count in classes:
        torch.manual_seed(0)
        model = create_model(
            "reconet", backbone=backbone, width=width, num_classes=count, crop=crop, aux=False
        ).eval()
        fit_classifier(model, taught)
        results.append(_bench(model, shown, protocol, rounds))
    return results


def _bench(model: Segmenter, shown: list[Sample], protocol: Protocol, rounds: int) -> EvaluateBench:
    clocks = {"ours": Clock(in_use(model, CPU)), "plain": Clock(lambda x: model(x).main_bkhw)}
    ways: dict[str, Callable[[Clock, Tensor], Tensor]] = {
        "ours": lambda clock, image: labels(clock, image, protocol, model.num_classes),
        "plain": lambda clock, image: plain_labels(clock, image, protocol, model.num_classes),
    }
    said: dict[str, list[Tensor]] = {}
    images = [torch.from_numpy(sample.image_hwc) for sample in shown]

    def call(name: str) -> None:
        clocks[name].rounds.append(0.0)
        said[name] = [ways[name](clocks[name], image_hwc) for image_hwc in images]

    seconds = time_in_turns({name: partial(call, name) for name in ways}, rounds)
    shares = {name: median(ratios(clocks[name].rounds[1:], seconds[name])) for name in ways}
    same = [(a == b).float().mean().item() for a, b in zip(*said.values(), strict=True)]
    return EvaluateBench(
        classes=model.num_classes,
        protocol=str(protocol),
        images=len(images),
        seconds=median(seconds["ours"]) / len(images),
        plain_seconds=median(seconds["plain"]) / len(images),
        speedup=median(ratios(seconds["plain"], seconds["ours"])),
        network_share=shares["ours"],
        plain_network_share=shares["plain"],
        miou=_miou(shown, said["ours"], model.num_classes),
        plain_miou=_miou(shown, said["plain"], model.num_classes),
        same_pixels=sum(same) / len(same),
    )


class Clock:
    """A network that knows how long it has run in each round; a caller begins a round."""

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
    """The lineage's protocol as one would write it down: slow and obvious."""
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
            said_bkhw = forward(window_bchw.flip(-1)).softmax(1).flip(-1)
        else:
            said_bkhw = forward(window_bchw).softmax(1)
        sum_bkhw[:, :, rows, columns] += said_bkhw
        count_hw[rows, columns] += 1
    return (sum_bkhw / count_hw)[:, :, :height, :width]


def windows(
    size: tuple[int, int], crop: tuple[int, int], stride: tuple[int, int]
) -> list[tuple[slice, slice]]:
    """Rows and columns of windows that cover an image of `size`. One smaller than the crop gets
    one window, which is larger than it and will be padded."""
    tops, lefts = (starts(*axis) for axis in zip(size, crop, stride, strict=True))
    return [(slice(y, y + crop[0]), slice(x, x + crop[1])) for y in tops for x in lefts]


@torch.no_grad()
def fit_classifier(model: Segmenter, taught: list[Sample], ridge: float = 1e-3) -> None:
    """Least squares from the features of a network that has learnt nothing to the classes, which is
    enough for a score above chance. Classes that do not occur are never said."""
    features, truths = [], []
    for sample in taught:
        image_bchw = torch.from_numpy(sample.image_hwc).permute(2, 0, 1)[None]
        map_bdij = model.context(model.backbone(model.normalise(image_bchw))).map_bdhw
        label_11hw = torch.from_numpy(sample.label_hw)[None, None].float()
        label_n = F.interpolate(label_11hw, map_bdij.shape[2:], mode="nearest").flatten().long()
        features.append(map_bdij.flatten(2)[0].T[label_n < SCENES])
        truths.append(label_n[label_n < SCENES])
    x_nd, label_n = torch.cat(features).double(), torch.cat(truths)
    mean_d, spread_d = x_nd.mean(0), x_nd.std(0) + 1e-9
    x_nd = torch.cat([(x_nd - mean_d) / spread_d, torch.ones(len(x_nd), 1)], 1)
    y_nk = F.one_hot(label_n, SCENES).double()
    square_dd = x_nd.T @ x_nd + ridge * len(x_nd) * torch.eye(x_nd.shape[1])
    weight_dk = 10 * torch.linalg.solve(square_dd, x_nd.T @ y_nk)
    weight_kd = weight_dk[:-1].T / spread_d
    assert model.classify.bias is not None
    torch.nn.init.zeros_(model.classify.weight)
    torch.nn.init.constant_(model.classify.bias, -10)
    model.classify.weight[:SCENES, :, 0, 0] = weight_kd.float()
    model.classify.bias[:SCENES] = (weight_dk[-1] - weight_kd @ mean_d).float()


def samples(split: str, size: tuple[int, int], count: int) -> list[Sample]:
    dataset = open_dataset("scenes", split, None, {"size": list(size), "train": 64, "val": 64})
    return [dataset[index] for index in range(count)]


def _miou(shown: list[Sample], said: list[Tensor], num_classes: int) -> float:
    count_kk = torch.zeros(num_classes, num_classes, dtype=torch.int64)
    for sample, said_hw in zip(shown, said, strict=True):
        count_kk += confusion(torch.from_numpy(sample.label_hw), said_hw, num_classes)
    return 100 * scores(count_kk).mean_iou.item()
