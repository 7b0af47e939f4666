"""FLOPs column of the comparison on VOC12 val: ResNet-101, and what each method adds to it.

The paper mixes inputs. Some numbers fit images of 513 x 513 (features of 65 x 65), others
512 x 512. Some include the classifier. Each row uses what gives the number, and its note says so.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch

from reconet.cost.counter import module_cost
from reconet.cost.paper.extra_modules import HeadWithClassifier, SummedPSANet
from reconet.cost.paper.table_row import PaperRow, make_paper_row
from reconet.models.backbone import ResNet
from reconet.models.context import CONTEXTS
from reconet.models.context.base import ContextModule
from reconet.models.features import Features, Stages

CLASSES = 21


@dataclass(frozen=True, kw_only=True)
class HeadCost:
    """The uniform count of what a method adds to the backbone, classifier included."""

    name: str
    macs: int
    params: int


def network_rows() -> list[PaperRow]:
    """Count the backbone and every method of the table."""
    row = partial(make_paper_row, table="network")
    at_512 = partial(row, size="2048x64x64", inputs=_features(512))
    at_513 = partial(row, size="2048x65x65", inputs=_features(513))
    return [
        row(
            method="ResNet-101",
            size="3x513x513",
            module=ResNet("resnet101"),
            inputs=torch.empty(1, 3, 513, 513),
            paper_g=190.6,
            evidence="exact",
            note="deep stem, output stride 8, no classifier",
        ),
        *_deeplab(partial(at_513, paper_g=84.1)),
        *_pspnet(partial(at_512, paper_g=77.5, module=_head("pspnet", 512))),
        *_danet(partial(at_512, paper_g=117.3)),
        *_psanet(partial(at_513, paper_g=56.3)),
        *_ccnet(partial(at_512, paper_g=65.3)),
        *_emanet(partial(at_513, paper_g=43.1)),
        *_reconet(partial(at_512, paper_g=41.9)),
    ]


def head_costs(crop: int = 512) -> list[HeadCost]:
    """Count the heads of the table by one rule, at one size, all with their classifier."""
    variants: dict[str, tuple[str, dict[str, Any]]] = {
        "EMANet, no last 3x3": ("emanet", {"last_conv": False}),
        "RecoNet": ("reconet", {}),
        "EMANet": ("emanet", {}),
        "DeepLabV3": ("deeplabv3", {}),
        "DeepLabV3+": ("deeplabv3plus", {}),
        "PSPNet": ("pspnet", {}),
        "PSANet": ("psanet", {}),
        "CCNet": ("ccnet", {}),
        "DANet": ("danet", {}),
    }
    with torch.device("meta"):
        features = _features(crop)
        costs = {
            label: module_cost(_head(name, crop, **options).eval(), features)
            for label, (name, options) in variants.items()
        }
    heads = [HeadCost(name=n, macs=c.macs, params=c.params) for n, c in costs.items()]
    return sorted(heads, key=lambda head: head.macs)


def _deeplab(row: Callable[..., PaperRow]) -> list[PaperRow]:
    return [
        row(
            method="DeepLabV3+",
            module=_head("deeplabv3plus", 513),
            note="two 3x3 convolutions in the decoder, as the authors have; with classifier",
        ),
        row(
            method="DeepLabV3+, one 3x3",
            module=_head("deeplabv3plus", 513, decoder_convs=1),
            note="one 3x3 convolution, as a public version has; with classifier",
        ),
    ]


def _pspnet(row: Callable[..., PaperRow]) -> list[PaperRow]:
    return [
        row(method="PSPNet", note="convolutions, norms and ReLUs; with classifier"),
        row(
            method="PSPNet, pooling",
            as_layers=("pooling", "resizing"),
            evidence="assumed",
            note="assumes that pooling and resizing are layers; input 512, not 513; with "
            "classifier",
        ),
    ]


def _danet(row: Callable[..., PaperRow]) -> list[PaperRow]:
    return [
        row(
            method="DANet",
            module=_context("danet", 512),
            as_layers=("attention",),
            evidence="assumed",
            note="assumes that products between positions count and those between channels do "
            "not; input 512, not 513; no classifiers",
        )
    ]


def _psanet(row: Callable[..., PaperRow]) -> list[PaperRow]:
    return [
        row(
            method="PSANet",
            module=_head("psanet", 513),
            note="as published: c4 and what was seen, side by side; products are not layers; with "
            "classifier",
        ),
        row(
            method="PSANet, summed",
            module=SummedPSANet(_stages(513), num_classes=CLASSES),
            count="convolutions",
            evidence="assumed",
            note="assumes that what was seen is added to c4, and that only convolutions count; "
            "no classifier",
        ),
    ]


def _ccnet(row: Callable[..., PaperRow]) -> list[PaperRow]:
    return [
        row(
            method="CCNet",
            module=_head("ccnet", 512),
            counted=_head("ccnet", 512, recurrence=1),
            as_layers=("product",),
            note="as published, products are layers; with classifier; no explanation known",
        )
    ]


def _emanet(row: Callable[..., PaperRow]) -> list[PaperRow]:
    return [
        row(
            method="EMANet",
            module=_head("emanet", 513),
            note="as released, with a 3x3 convolution after EMAU; with classifier",
        ),
        row(
            method="EMANet, no last 3x3",
            module=_head("emanet", 513, last_conv=False),
            count="uniform",
            evidence="assumed",
            note="assumes no 3x3 convolution after EMAU, and the uniform count: all 7 products, "
            "no norms; with classifier",
        ),
    ]


def _reconet(row: Callable[..., PaperRow]) -> list[PaperRow]:
    return [
        row(
            method="RecoNet",
            module=_context("reconet", 512),
            evidence="assumed",
            note="assumes 3x3 2048-512 before and 1x1 1536-512 after; input 512, not 513; "
            "no classifier",
        )
    ]


@cache
def _stages(crop: int) -> Stages:
    return ResNet("resnet101").stages((crop, crop))


def _features(crop: int) -> Features:
    return Features(*(torch.empty(1, s.channels, s.height, s.width) for s in _stages(crop)))


def _context(name: str, crop: int, **options: Any) -> ContextModule:
    return CONTEXTS[name](_stages(crop), num_classes=CLASSES, **options)


def _head(name: str, crop: int, **options: Any) -> HeadWithClassifier:
    return HeadWithClassifier(_context(name, crop, **options), CLASSES)
