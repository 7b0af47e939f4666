"""Bring coarse logits to stride 4: a correction from the finer maps c2 and c1 that starts at zero.

    map_bdhw -> 1x1 -> resize -> + 1x1(c2) -> separable 3x3 -> resize -> + 1x1(c1) -> separable 3x3
    logits = resize(coarse) + 1x1(that)

The last 1x1 starts at zero, so a new decoder changes nothing: a trained network can be given one,
and a fresh one learns its coarse logits first.
"""

from torch import Tensor, nn

from reconet.models.features import Features, Stages
from reconet.models.layers import conv_bn_relu, resize

WIDTH = 48  # channels
READS = ("c1", "c2")


class LightDecoder(nn.Module):
    """Correct coarse logits by finer maps: coarse_bkij, map_bdij, features -> logits_bkhw of c1."""

    def __init__(self, stages: Stages, *, channels: int, num_classes: int) -> None:
        super().__init__()
        self.from_map = conv_bn_relu(channels, WIDTH, 1)
        self.from_c2 = conv_bn_relu(stages.c2.channels, WIDTH, 1)
        self.from_c1 = conv_bn_relu(stages.c1.channels, WIDTH, 1)
        self.mix_c2 = _separable(WIDTH)
        self.mix_c1 = _separable(WIDTH)
        self.correct = nn.Conv2d(WIDTH, num_classes, 1)
        nn.init.zeros_(self.correct.weight)
        assert self.correct.bias is not None
        nn.init.zeros_(self.correct.bias)

    def forward(self, coarse_bkij: Tensor, map_bdij: Tensor, features: Features) -> Tensor:
        c2_bwyx, c1_bwhw = self.from_c2(features.c2), self.from_c1(features.c1)
        x = self.from_map(map_bdij)
        x = self.mix_c2(_like(x, c2_bwyx) + c2_bwyx)
        x = self.mix_c1(_like(x, c1_bwhw) + c1_bwhw)
        logits_bkhw: Tensor = _like(coarse_bkij, c1_bwhw) + self.correct(x)
        return logits_bkhw


def _like(x_bchw: Tensor, other_bchw: Tensor) -> Tensor:
    return resize(x_bchw, (other_bchw.shape[2], other_bchw.shape[3]))


def _separable(channels: int) -> nn.Sequential:
    """Build a depthwise 3x3 convolution and a 1x1, with batch norm and ReLU."""
    depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
    return nn.Sequential(depthwise, *conv_bn_relu(channels, channels, 1))
