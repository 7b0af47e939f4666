"""Expectation-maximisation attention (EMANet).

Dimensions: b batch, c channels, h rows, w columns, n = h * w positions, k bases.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from reconet.models.context.base import (
    AttentionMaps,
    ContextInfo,
    ContextModule,
    RecordedPass,
    largest_maps,
)
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import Product, conv_bn, conv_bn_relu, full_precision
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Expectation-maximisation attention",
    paper='Li et al., "Expectation-Maximization Attention Networks for Semantic Segmentation", '
    "ICCV 2019",
    idea="Every position is rebuilt from k bases that a few steps of EM fit to the image.",
    options={
        "bases": "number of bases",
        "iterations": "steps of EM",
        "momentum": "weight of the old bases in their running mean",
        "last_conv": "end in a 3x3 convolution to half the channels, as released; the paper's "
        "cost is without it",
        "concat": "join the result with c4 by another 3x3 convolution, as one toolkit does",
        "dropout": "before the classifier",
    },
)

EPS = 1e-6


class ExpectationMaximisation(nn.Module):
    """EMAU: ReLU(x + BN(conv(ReLU(bases . responsibilities)))), after `iterations` steps of EM.

    The fit starts from bases that are a running mean over training, not learned by gradient.
    """

    bases_ck: Tensor
    seen_ck: Tensor  # sum over the images of the current step of training
    seen_images: Tensor

    def __init__(
        self, channels: int, *, bases: int = 64, iterations: int = 3, momentum: float = 0.9
    ) -> None:
        super().__init__()
        self.iterations, self.momentum = iterations, momentum
        # No gradient passes through EM, so this layer keeps its initial weights.
        self.project = nn.Conv2d(channels, channels, 1).requires_grad_(False)
        self.product = Product()
        self.restore = conv_bn(channels, channels, 1)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        self.register_buffer("bases_ck", F.normalize(torch.randn(channels, bases), dim=0))
        # Empty between steps, hence no part of a checkpoint.
        self.register_buffer("seen_ck", torch.zeros(channels, bases), persistent=False)
        self.register_buffer("seen_images", torch.zeros(()), persistent=False)

    def forward(self, x_bchw: Tensor) -> Tensor:
        feature_bcn = self.project(x_bchw.detach()).flatten(2)
        with full_precision(x_bchw):
            bases_bck, share_bnk = self.fit(feature_bcn.float())
            del feature_bcn  # its memory is free for what comes
            rebuilt_bcn = bases_bck @ share_bnk.transpose(1, 2)
        if self.training:
            self.seen_ck += bases_bck.detach().sum(0)
            self.seen_images += bases_bck.shape[0]
        y_bchw = self.restore(rebuilt_bcn.relu_().to(x_bchw.dtype).view_as(x_bchw))
        return F.relu(x_bchw + y_bchw, inplace=True)

    def fit(self, feature_bcn: Tensor) -> tuple[Tensor, Tensor]:
        """Fit bases to each image. Return them with each position's shares in the last but one."""
        bases_bck = self.bases_ck.to(feature_bcn.dtype).expand(feature_bcn.shape[0], -1, -1)
        for _ in range(self.iterations):
            share_bnk = self.product(feature_bcn.transpose(1, 2), bases_bck).softmax(dim=2)
            mean_bnk = share_bnk / (EPS + share_bnk.sum(dim=1, keepdim=True))
            bases_bck = self.product(feature_bcn, mean_bnk)
            bases_bck = bases_bck / (EPS + bases_bck.norm(dim=1, keepdim=True))
        return bases_bck, share_bnk

    @torch.no_grad()
    def update(self) -> None:
        """Mix the mean over all images of a step, of all processes, into the running bases.

        They are not normalised again, as released, so their norms fall below 1.
        """
        seen = torch.cat([self.seen_ck.flatten(), self.seen_images.view(1)])
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(seen)
        images = seen[-1]
        mean_ck = seen[:-1].view_as(self.bases_ck) / images.clamp(min=1)
        new = (1 - self.momentum) * (images > 0)  # no images, no change
        self.bases_ck.lerp_(mean_ck.to(self.bases_ck.dtype), new.to(self.bases_ck.dtype))
        self.seen_ck.zero_()
        self.seen_images.zero_()


class EMANet(ContextModule):
    """c4 -> 3x3 -> EMAU -> 3x3 to half the channels (`last_conv`) -> dropout."""

    info = INFO
    core: ExpectationMaximisation

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        bases: PositiveInt = 64,
        iterations: PositiveInt = 3,
        momentum: Fraction = 0.9,
        last_conv: bool = True,
        concat: bool = False,
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = stages.c4.channels // 4
        self.out_channels = max(1, channels // 2) if last_conv else channels
        self.reduce = conv_bn_relu(stages.c4.channels, channels, 3)
        self.core = ExpectationMaximisation(
            channels, bases=bases, iterations=iterations, momentum=momentum
        )
        self.refine = conv_bn_relu(channels, self.out_channels, 3) if last_conv else nn.Identity()
        joined = stages.c4.channels + self.out_channels
        self.join = conv_bn_relu(joined, self.out_channels, 3) if concat else None
        self.dropout = nn.Dropout2d(dropout)

    def forward(self, features: Features) -> Context:
        y_bchw = self.refine(self.core(self.reduce(features.c4)))
        if self.join is not None:
            y_bchw = self.join(torch.cat([features.c4, y_bchw], dim=1))
        return Context(self.dropout(y_bchw), {})

    def after_step(self) -> None:
        self.core.update()

    def attention_maps(self, recorded: RecordedPass) -> AttentionMaps:
        feature_bchw = self.core.project(recorded.input_of(self.core))
        _, share_bnk = self.core.fit(feature_bchw.flatten(2).float())
        share_khw = share_bnk[0].T.unflatten(1, feature_bchw.shape[2:])
        description = (
            "Each position's share in the bases that hold most of the image. Shares sum to 1."
        )
        return AttentionMaps(description, largest_maps("base", share_khw, share_khw.mean((1, 2))))
