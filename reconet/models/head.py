"""Classifiers: the last layers of every network, whatever its context."""

from torch import Tensor, nn

from reconet.models.layers import conv_bn_relu


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
