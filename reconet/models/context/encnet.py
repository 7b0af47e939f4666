"""Context encoding (EncNet).

Dimensions: b batch, n positions, c channels, j codewords, k classes.
"""

import torch
import torch.nn.functional as F
from pydantic import NonNegativeFloat, PositiveInt
from torch import Tensor, nn

from reconet.models.context.base import (
    AttentionMaps,
    ContextInfo,
    ContextModule,
    RecordedPass,
    largest_maps,
)
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import conv_bn_relu, full_precision, resize
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Context encoding",
    paper='Zhang et al., "Context Encoding for Semantic Segmentation", CVPR 2018',
    idea="The image, summed up as differences to a few learned codewords, gates the channels and "
    "has to tell which classes are there.",
    reach="channels only",
    options={
        "codes": "number of codewords",
        "se_weight": "weight of the loss on the classes that the encoding sees",
        "lateral": "add c2 and c3, as the authors do for Pascal data",
        "dropout": "before the classifier",
    },
)


class Encoding(nn.Module):
    """Sums of the differences between positions and each of a few learned codewords: bcn -> bjc.

    Every position is shared out among the codewords by its distance to them. The scales start
    negative, so that near codewords get most, and are free afterwards.
    """

    def __init__(self, channels: int, codes: int) -> None:
        super().__init__()
        spread = (codes * channels) ** -0.5
        self.code_jc = nn.Parameter(torch.empty(codes, channels).uniform_(-spread, spread))
        self.scale_j = nn.Parameter(torch.empty(codes).uniform_(-1, 0))

    def forward(self, x_bcn: Tensor) -> Tensor:
        with full_precision(x_bcn):  # squares that nearly cancel
            x_bcn = x_bcn.float()
            share_bjn = (self.scale_j[:, None] * self.square_distance(x_bcn)).softmax(dim=1)
            # sum_n share (x - code), without a tensor of all differences
            sum_bjc = share_bjn @ x_bcn.transpose(1, 2)
            return sum_bjc - share_bjn.sum(dim=2, keepdim=True) * self.code_jc

    def square_distance(self, x_bcn: Tensor) -> Tensor:
        """Compute |x - code|^2 as |x|^2 - 2 x . code + |code|^2."""
        length_b1n = x_bcn.square().sum(dim=1, keepdim=True)
        length_j1 = self.code_jc.square().sum(dim=1, keepdim=True)
        return length_b1n - 2 * (self.code_jc @ x_bcn) + length_j1


class EncModule(nn.Module):
    """Gate the channels of a map by its encoding: x -> ReLU(x + x * gate).

    With `num_classes`, the encoding also says which classes are in the image. The scores go into
    `extra` as "presence_bk". With None, that layer is left out.
    """

    def __init__(self, channels: int, num_classes: int | None, codes: int = 32) -> None:
        super().__init__()
        self.project = conv_bn_relu(channels, channels, 1)
        self.encoding = Encoding(channels, codes)
        self.norm = nn.BatchNorm2d(codes)
        self.gate = nn.Linear(channels, channels)
        self.presence = None if num_classes is None else nn.Linear(channels, num_classes)

    def forward(self, x_bchw: Tensor, extra: dict[str, Tensor] | None = None) -> Tensor:
        code_bc = self.encode(x_bchw)
        if extra is not None and self.presence is not None:
            extra["presence_bk"] = self.presence(code_bc)
        gate_bc: Tensor = self.gate(code_bc).sigmoid()
        return F.relu(x_bchw + x_bchw * gate_bc[:, :, None, None])

    def encode(self, x_bchw: Tensor) -> Tensor:
        """Return the image as one vector, code_bc: the mean over codewords."""
        code_bjc = self.encoding(self.project(x_bchw).flatten(2))
        # One norm per codeword, over images and channels. As a map, so that several processes
        # synchronise it like every other norm.
        return F.relu(self.norm(code_bjc.unsqueeze(3)).squeeze(3)).mean(dim=1)


class Lateral(nn.Module):
    """c2 and c3 beside the reduced c4, joined by a 3x3 convolution."""

    STAGES = ("c2", "c3", "c4")  # that a context with it reads

    def __init__(self, stages: Stages, channels: int) -> None:
        super().__init__()
        self.c2 = conv_bn_relu(stages.c2.channels, channels, 1)
        self.c3 = conv_bn_relu(stages.c3.channels, channels, 1)
        self.join = conv_bn_relu(3 * channels, channels, 3)

    def forward(self, features: Features, x_bchw: Tensor) -> Tensor:
        size = (x_bchw.shape[2], x_bchw.shape[3])
        sides = [resize(self.c2(features.c2), size), resize(self.c3(features.c3), size)]
        y_bchw: Tensor = self.join(torch.cat([*sides, x_bchw], dim=1))
        return y_bchw


class EncNet(ContextModule):
    """c4 -> X -> encoding -> dropout, with a loss on the classes that the encoding sees."""

    info = INFO
    core: EncModule

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        codes: PositiveInt = 32,
        se_weight: NonNegativeFloat = 0.2,
        lateral: bool = False,
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = self.out_channels = stages.c4.channels // 4
        self.se_weight = se_weight
        self.reduce = conv_bn_relu(stages.c4.channels, channels, 3)
        self.lateral = Lateral(stages, channels) if lateral else None
        self.core = EncModule(channels, num_classes, codes)
        self.dropout = nn.Dropout(dropout)

    @property
    def stages_read(self) -> tuple[str, ...]:
        return self.info.stages if self.lateral is None else Lateral.STAGES

    def forward(self, features: Features) -> Context:
        x_bchw = self.reduce(features.c4)
        if self.lateral is not None:
            x_bchw = self.lateral(features, x_bchw)
        extra: dict[str, Tensor] = {}
        y_bchw = self.core(x_bchw, extra if self.training else None)
        return Context(self.dropout(y_bchw), extra)

    def loss(self, extra: dict[str, Tensor], label_bhw: Tensor) -> Tensor:
        return self.se_weight * presence_loss(extra["presence_bk"], label_bhw)

    def attention_maps(self, recorded: RecordedPass) -> AttentionMaps:
        core, encoding = self.core, self.core.encoding
        x_bchw = recorded.input_of(core)
        feature_bcn = recorded.input_of(encoding).float()
        share_jn = (encoding.scale_j[:, None] * encoding.square_distance(feature_bcn)[0]).softmax(0)
        share_jhw = share_jn.unflatten(1, x_bchw.shape[2:])
        code_bc = core.encode(x_bchw)
        gates = [("channels", core.gate(code_bc)[0].sigmoid())]
        if core.presence is not None:
            gates.append(("classes that the encoding expects", core.presence(code_bc)[0].sigmoid()))
        return AttentionMaps(
            "Each position's share in the codewords that hold most, and the gates of channels.",
            maps=largest_maps("codeword", share_jhw, share_jhw.mean((1, 2))),
            gates=tuple(gates),
        )


def presence_loss(logits_bk: Tensor, label_bhw: Tensor) -> Tensor:
    """Score whether each class is anywhere in the image: the mean over images and classes."""
    target_bk = classes_present(label_bhw, logits_bk.shape[1])
    return F.binary_cross_entropy_with_logits(logits_bk.float(), target_bk)


def classes_present(label_bhw: Tensor, num_classes: int) -> Tensor:
    """Return 1 where a class has at least one pixel. Labels outside 0..k-1 are ignored."""
    label_bn = label_bhw.flatten(1).long()
    known_bn = (label_bn >= 0) & (label_bn < num_classes)
    seen = torch.zeros(len(label_bn), num_classes + 1, device=label_bhw.device)
    return seen.scatter_(1, label_bn.where(known_bn, num_classes), 1.0)[:, :num_classes]
