"""The last layers of every network, whatever its context: classifiers, and the decoder."""

from torch import Tensor, nn

from reconet.models.features import Features, Stages
from reconet.models.layers import conv_bn_relu, resize

WIDTH = 48  # channels of the decoder
READS = ("c1", "c2")  # maps that the decoder reads


def classifier(channels: int, num_classes: int) -> nn.Conv2d:
    """Build a 1x1 convolution to class scores. Its weights start small, to favour no class."""
    conv = nn.Conv2d(channels, num_classes, 1)
    nn.init.normal_(conv.weight, std=0.01)
    assert conv.bias is not None
    nn.init.zeros_(conv.bias)
    return conv


class AuxiliaryHead(nn.Module):
    """A small classifier on c3 that brings gradients into the middle of the backbone."""

    def __init__(self, channels: int, num_classes: int) -> None:
        super().__init__()
        self.reduce = conv_bn_relu(channels, channels // 4, 3)
        self.dropout = nn.Dropout(0.1)
        self.classify = classifier(channels // 4, num_classes)

    def forward(self, c3_bchw: Tensor) -> Tensor:
        logits_bkhw: Tensor = self.classify(self.dropout(self.reduce(c3_bchw)))
        return logits_bkhw


class LightDecoder(nn.Module):
    """Correct coarse logits by the finer maps c2 and c1, so that logits_bkhw have stride 4.

        map_bdhw -> 1x1 -> resize -> + 1x1(c2) -> separable 3x3 -> resize -> + 1x1(c1) -> separable
        3x3; logits = resize(coarse) + 1x1(that)

    The last 1x1 starts at zero, so a new decoder changes nothing: a trained network can be given
    one, and a fresh one learns its coarse logits first.
    """

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
