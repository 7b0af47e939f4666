"""Context encoding: Zhang et al., "Context Encoding for Semantic Segmentation" (CVPR 2018): its
module, for CFNet. (The method itself is added elsewhere; this file makes way for that one.)

Dimensions: b batch, n positions, c channels, j codewords, k classes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reconet.models.attention import full_precision
from reconet.models.features import Features, Stages
from reconet.models.layers import conv_bn_relu, resize


class EncModule(nn.Module):
    """x -> ReLU(x + x * gate), the gate from a soft count of codewords in the picture.

    With `num_classes` the count also tells which classes are present, into extra["presence_bk"].
    """

    def __init__(self, channels: int, num_classes: int | None, codes: int = 32) -> None:
        super().__init__()
        spread = (codes * channels) ** -0.5
        self.project = conv_bn_relu(channels, channels, 1)
        self.code_jc = nn.Parameter(torch.empty(codes, channels).uniform_(-spread, spread))
        self.scale_j = nn.Parameter(torch.empty(codes).uniform_(-1, 0))
        self.norm = nn.BatchNorm2d(codes)  # on bjc1: two dimensions, to be synchronised
        self.gate = nn.Linear(channels, channels)
        self.presence = None if num_classes is None else nn.Linear(channels, num_classes)

    def forward(self, x_bchw: Tensor, extra: dict[str, Tensor] | None = None) -> Tensor:
        sum_bjc = self.encode(self.project(x_bchw).flatten(2))
        code_bc = self.norm(sum_bjc.unsqueeze(3)).squeeze(3).relu().mean(dim=1)
        if extra is not None and self.presence is not None:
            extra["presence_bk"] = self.presence(code_bc)
        gate_bc: Tensor = self.gate(code_bc).sigmoid()
        return F.relu(x_bchw + x_bchw * gate_bc[:, :, None, None])

    def encode(self, x_bcn: Tensor) -> Tensor:
        """sum_n share_jn (x_n - code_j), share = softmax_j(scale_j |x_n - code_j|^2)."""
        with full_precision(x_bcn):  # squares that nearly cancel
            x_bcn = x_bcn.float()
            square_j1 = self.code_jc.square().sum(dim=1, keepdim=True)
            square_b1n = x_bcn.square().sum(dim=1, keepdim=True)
            distance_bjn = square_b1n - 2 * (self.code_jc @ x_bcn) + square_j1
            share_bjn = (self.scale_j[:, None] * distance_bjn).softmax(dim=1)
            whole_bjc = share_bjn @ x_bcn.transpose(1, 2)
            return whole_bjc - share_bjn.sum(dim=2, keepdim=True) * self.code_jc


class Lateral(nn.Module):
    """c2 and c3 beside the reduced c4, joined by a 3x3 convolution."""

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


def presence_loss(logits_bk: Tensor, label_bhw: Tensor) -> Tensor:
    """Is each class anywhere in the picture? Labels outside 0..k-1 are nobody's."""
    classes = torch.arange(logits_bk.shape[1], device=label_bhw.device)
    target_bk = (label_bhw.flatten(1).unsqueeze(1) == classes[:, None]).any(dim=2)
    return F.binary_cross_entropy_with_logits(logits_bk.float(), target_bk.float())
