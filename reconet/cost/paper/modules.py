"""Modules that only the cost tables need, built as the paper's numbers suggest they were.

Each exists for the one row that it explains. None is a context that one could train.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from reconet.models.context.apcnet import AdaptiveContext
from reconet.models.context.asymmetric import FusionBlock, PyramidAttention
from reconet.models.context.base import ContextModule
from reconet.models.context.psanet import PSANet
from reconet.models.features import Context, Features, Stages
from reconet.models.head import classifier
from reconet.models.layers import conv_bn_relu, resize


class HeadWithClassifier(nn.Module):
    """A context with its classifier: what a method adds to the backbone in inference."""

    def __init__(self, context: ContextModule, num_classes: int) -> None:
        super().__init__()
        self.context = context
        self.classify = classifier(context.out_channels, num_classes)

    def forward(self, features: Features) -> Tensor:
        logits_bkhw: Tensor = self.classify(self.context(features).map_bdhw)
        return logits_bkhw


class AdaptiveContexts(nn.Module):
    """The modules of APCNet, all on one map, with as many channels inside."""

    def __init__(self, channels: int, scales: Sequence[int] = (1, 2, 3, 6)) -> None:
        super().__init__()
        self.branches = nn.ModuleList(AdaptiveContext(channels, channels, s) for s in scales)

    def forward(self, x_bchw: Tensor) -> Tensor:
        return torch.cat([branch(x_bchw) for branch in self.branches], dim=1)


class OneMap(nn.Module):
    """AFNB, or only its attention, with the same map as both inputs."""

    def __init__(self, block: FusionBlock | PyramidAttention) -> None:
        super().__init__()
        self.block = block

    def forward(self, x_bchw: Tensor) -> Tensor:
        y_bchw: Tensor = self.block(x_bchw, x_bchw)
        return y_bchw


def bare_attention(channels: int, width: int) -> OneMap:
    """Build the attention of AFNB without the norms and ReLUs of its queries and keys."""
    attention = PyramidAttention(channels, channels, width, channels)
    assert attention.key is not None
    attention.query = nn.Sequential(attention.query[0])
    attention.key = nn.Sequential(attention.key[0])
    return OneMap(attention)


class SummedPSANet(PSANet):
    """PSANet that adds the collected context to c4. The authors concatenate the two."""

    def __init__(self, stages: Stages, *, num_classes: int) -> None:
        super().__init__(stages, num_classes=num_classes)
        self.fuse = conv_bn_relu(stages.c4.channels, self.out_channels, 3)

    def forward(self, features: Features) -> Context:
        c4 = features.c4
        context_bdhw = self.expand(torch.cat([self.collect(c4), self.distribute(c4)], dim=1))
        context_bdhw = resize(context_bdhw, (c4.shape[2], c4.shape[3]))
        return Context(self.dropout(self.fuse(c4 + context_bdhw)), {})
