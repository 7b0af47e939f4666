"""Latent graph (LatentGNN).

Dimensions: b batch, c channels (fewer inside), h rows, w columns, n = h * w, d latent nodes.
"""

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from reconet.models.context.base import (
    AttentionMaps,
    ContextInfo,
    ContextModule,
    NamedMap,
    RecordedPass,
    largest_maps,
)
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import conv_bn, conv_bn_relu
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Latent graph",
    paper='Zhang et al., "LatentGNN: Learning Efficient Non-local Relations for Visual '
    'Recognition", ICML 2019',
    idea="The positions of the map send their features to a few latent nodes, the nodes exchange "
    "them over a complete graph, and send them back: an n x n affinity of rank at most d, never "
    "written down.",
    options={
        "nodes": "number of latent nodes",
        "stride": "divides the channels inside the block",
        "kernels": "graphs side by side",
        "symmetric": "send and receive with the same weights",
        "dropout": "before the classifier",
    },
)


class LatentGraph(nn.Module):
    """One kernel: visible_bchw -> latent nodes -> visible_bchw."""

    def __init__(self, channels: int, nodes: int, *, symmetric: bool) -> None:
        super().__init__()
        self.send = conv_bn_relu(channels, nodes, 1)
        self.receive = None if symmetric else conv_bn_relu(channels, nodes, 1)

    def forward(self, sender_bchw: Tensor, receiver_bchw: Tensor) -> Tensor:
        send_bdn, receive_bdn = self.weights(sender_bchw, receiver_bchw)
        latent_bdc = send_bdn @ sender_bchw.flatten(2).transpose(1, 2)
        latent_bdc = adjacency(latent_bdc) @ latent_bdc
        visible_bcn = latent_bdc.transpose(1, 2) @ receive_bdn
        return visible_bcn.view_as(sender_bchw)

    def weights(self, sender_bchw: Tensor, receiver_bchw: Tensor) -> tuple[Tensor, Tensor]:
        """Compute weights between nodes and positions, for sending and for receiving."""
        send_bdn = self.send(sender_bchw).flatten(2)
        if self.receive is None:
            send_bdn = unit(send_bdn, dim=1)
            return send_bdn, send_bdn
        receive_bdn = self.receive(receiver_bchw).flatten(2)
        return unit(send_bdn, dim=2), unit(receive_bdn, dim=1)


def adjacency(latent_bdc: Tensor) -> Tensor:
    """Compute weights between latent nodes: softmax of the cosine. Each row sums to 1."""
    unit_bdc = unit(latent_bdc, dim=2)
    return (unit_bdc @ unit_bdc.transpose(1, 2)).softmax(dim=2).to(latent_bdc.dtype)


def unit(x: Tensor, *, dim: int) -> Tensor:
    """Scale to length 1 along `dim`, and leave zeros. Half precision could not tell the two."""
    return F.normalize(x.float(), dim=dim).to(x.dtype)


class LatentGNNBlock(nn.Module):
    """x + gamma * up(kernels(down(x))), with unit features at every position inside."""

    def __init__(
        self,
        channels: int,
        *,
        nodes: int = 100,
        stride: int = 4,
        kernels: int = 1,
        symmetric: bool = True,
    ) -> None:
        super().__init__()
        width = max(1, channels // stride)
        self.down = conv_bn(channels, width, 1)
        self.down_receive = None if symmetric else conv_bn(channels, width, 1)
        self.kernels = nn.ModuleList(
            LatentGraph(width, nodes, symmetric=symmetric) for _ in range(kernels)
        )
        self.up = conv_bn(width * kernels, channels, 1)
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(self, x_bchw: Tensor) -> Tensor:
        sender_bchw = receiver_bchw = unit(self.down(x_bchw), dim=1)
        if self.down_receive is not None:
            receiver_bchw = unit(self.down_receive(x_bchw), dim=1)
        visible = [kernel(sender_bchw, receiver_bchw) for kernel in self.kernels]
        y_bchw: Tensor = self.up(torch.cat(visible, dim=1))
        return x_bchw + self.gamma * y_bchw


class LatentGNN(ContextModule):
    """c4 -> 3x3 -> LatentGNN block -> 3x3 -> dropout. The paper's block has no head around it."""

    info = INFO
    core: LatentGNNBlock

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        nodes: PositiveInt = 100,
        stride: PositiveInt = 4,
        kernels: PositiveInt = 1,
        symmetric: bool = True,
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = stages.c4.channels // 4
        self.out_channels = channels
        self.reduce = conv_bn_relu(stages.c4.channels, channels, 3)
        self.core = LatentGNNBlock(
            channels, nodes=nodes, stride=stride, kernels=kernels, symmetric=symmetric
        )
        self.refine = conv_bn_relu(channels, channels, 3)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Features) -> Context:
        return Context(self.dropout(self.refine(self.core(self.reduce(features.c4)))), {})

    def attention_maps(self, recorded: RecordedPass) -> AttentionMaps:
        maps: list[NamedMap] = []
        for number, kernel in enumerate(self.core.kernels):
            assert isinstance(kernel, LatentGraph)
            send_khw = kernel.send(recorded.input_of(kernel))[0]
            name = f"kernel {number}, node" if number else "node"
            maps += largest_maps(name, send_khw, send_khw.sum((1, 2)))
        description = (
            "What positions send to the latent nodes that receive most, not yet normalised."
        )
        return AttentionMaps(description, tuple(maps))
