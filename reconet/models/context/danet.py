"""Dual attention (DANet)."""

import torch
from torch import Tensor, nn

from reconet.models.context.base import (
    AttentionMaps,
    ContextInfo,
    ContextModule,
    RecordedPass,
    point_weights,
)
from reconet.models.features import Context, Features, Stages
from reconet.models.head import classifier
from reconet.models.layers import Product, conv_bn_relu, full_precision
from reconet.models.losses import side_loss
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Dual attention",
    paper='Fu et al., "Dual Attention Network for Scene Segmentation", CVPR 2019',
    idea="In two branches, positions attend to positions (PAM) and channels to channels (CAM).",
    options={
        "paper_sign": "the printed sign of CAM, by which like channels weigh most",
        "dropout": "before the classifier",
    },
)


class PositionAttention(nn.Module):
    """PAM: x_i + gamma * sum_j softmax_j(q_i . k_j) v_j over all positions, without a scale."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        width = max(1, channels // 8)
        self.query = nn.Conv2d(channels, width, 1)
        self.key = nn.Conv2d(channels, width, 1)
        self.value = nn.Conv2d(channels, channels, 1)
        self.compare, self.collect = Product(), Product()
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(self, x_bchw: Tensor) -> Tensor:
        # Torch has no kernel without the map of weights if values are wider than queries.
        query_bnd = self.query(x_bchw).flatten(2).transpose(1, 2)
        weight_bnm = self.compare(query_bnd, self.key(x_bchw).flatten(2)).softmax(dim=2)
        context_bcn = self.collect(self.value(x_bchw).flatten(2), weight_bnm.transpose(1, 2))
        y_bchw: Tensor = x_bchw + self.gamma * context_bcn.view_as(x_bchw)
        return y_bchw


class ChannelAttention(nn.Module):
    """CAM: x + gamma * A x with A_cd = softmax_d(-x_c . x_d): unlike channels weigh most.

    This is what the authors trained. Their paper prints the other sign (`paper_sign`).
    """

    def __init__(self, *, paper_sign: bool = False) -> None:
        super().__init__()
        self.sign = 1.0 if paper_sign else -1.0
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(self, x_bchw: Tensor) -> Tensor:
        x_bcn = x_bchw.flatten(2)
        weight_bcd = self.weights(x_bcn).to(x_bchw.dtype)
        return x_bchw + self.gamma * (weight_bcd @ x_bcn).view_as(x_bchw)

    def weights(self, x_bcn: Tensor) -> Tensor:
        with full_precision(x_bcn):  # sums over all positions: beyond half precision
            x_bcn = x_bcn.float()
            energy_bcd = x_bcn @ x_bcn.transpose(1, 2)
        return (self.sign * energy_bcd).softmax(dim=2)


class DANet(ContextModule):
    """c4 -> 3x3, PAM, 3x3; c4 -> 3x3, CAM, 3x3; their sum -> dropout. The core is PAM.

    In training each branch has a classifier of its own.
    """

    info = INFO
    core: PositionAttention

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        paper_sign: bool = False,
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = stages.c4.channels // 4
        self.out_channels = channels
        self.position_reduce = conv_bn_relu(stages.c4.channels, channels, 3)
        self.core = PositionAttention(channels)
        self.position_refine = conv_bn_relu(channels, channels, 3)
        self.channel_reduce = conv_bn_relu(stages.c4.channels, channels, 3)
        self.channel = ChannelAttention(paper_sign=paper_sign)
        self.channel_refine = conv_bn_relu(channels, channels, 3)
        self.dropout = nn.Dropout2d(dropout)
        self.classify_position = classifier(channels, num_classes)
        self.classify_channel = classifier(channels, num_classes)

    def forward(self, features: Features) -> Context:
        position_bchw = self.position_refine(self.core(self.position_reduce(features.c4)))
        channel_bchw = self.channel_refine(self.channel(self.channel_reduce(features.c4)))
        map_bchw = self.dropout(position_bchw + channel_bchw)
        if not self.training:
            return Context(map_bchw, {})
        position_bkhw = self.classify_position(self.dropout(position_bchw))
        channel_bkhw = self.classify_channel(self.dropout(channel_bchw))
        return Context(map_bchw, {"position": position_bkhw, "channel": channel_bkhw})

    def loss(self, extra: dict[str, Tensor], label_bhw: Tensor) -> Tensor:
        """Add the losses of both branches. Each counts as much as the main classifier."""
        return side_loss(extra["position"], label_bhw) + side_loss(extra["channel"], label_bhw)

    def attention_maps(self, recorded: RecordedPass) -> AttentionMaps:
        x_bchw = recorded.input_of(self.core)
        query_dhw, key_dhw = self.core.query(x_bchw)[0], self.core.key(x_bchw)[0]
        row, column = recorded.cell_of_point(query_dhw.shape[1:])
        weight_n = point_weights(query_dhw[:, row, column], key_dhw.flatten(1), 1.0)
        description = (
            "Where the marked point looks in the position branch. Its weights sum to 1. The branch "
            f"is multiplied by gamma = {self.core.gamma.item():.3g}, the channel branch by "
            f"{self.channel.gamma.item():.3g}."
        )
        maps = (("where it looks", weight_n.view(key_dhw.shape[1:])),)
        return AttentionMaps(description, maps, from_point=True)
