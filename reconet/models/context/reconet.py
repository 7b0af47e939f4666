"""Tensor low-rank reconstruction (RecoNet).

The map is averaged into three profiles: over channels, over rows, over columns (the pools of the
TGM). Each profile generates r factor vectors. The weighted sum of their r outer products is the
attention (the TRM).

    x_bchw -> profiles bc, bh, bw -> factors brc, brh, brw -> attention_bchw -> x * attention

`reconet explain` takes this context apart rank by rank (models/decompose.py), so it has no
attention_maps(). A form in which the tensor joins the map is in reconet_plus.py.

Dimensions: b batch, c channels, h rows, w columns, r rank, n the length of one axis.
"""

from collections.abc import Sequence
from types import MappingProxyType

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from reconet.models.context.base import ContextInfo, ContextModule
from reconet.models.context.low_rank import (
    Factors,
    LowRankCore,
    LowRankHead,
    RankWords,
    outer_planes,
    reconstruct,
)
from reconet.models.features import Context, Features, FeatureSpec, Stages
from reconet.models.layers import conv_bn_relu, resize
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Tensor low-rank reconstruction",
    paper='Chen et al., "Tensor Low-Rank Reconstruction for Semantic Segmentation", ECCV 2020',
    idea="An attention of the map's own shape, the sum of r outer products of gates for channels, "
    "rows and columns, re-weights the map.",
    options={
        "rank": "number of outer products, r",
        "tgm_trm": "use the attention (TGM and TRM)",
        "gpm": "use global pooling (GPM)",
        "pruned": "the ranks are those that `reconet prune` kept; each keeps its weight",
        "dropout": "before the classifier",
    },
    removed=dict.fromkeys(
        ("profile_norm", "rank_weights", "shared_basis"),
        "was removed after 0.1: no study showed a use for it. Context reconet_plus is another form",
    ),
)
WORDS = RankWords(
    symbol="A",
    name="attention",
    above="A_{} * X",
    below="A_{}",
    title="Sub-attention",
    about="Above, each map is the mean over channels of A_i * X: what rank i alone would let "
    "through of the features X. Below it is A_i by itself, the mean over channels, which is an "
    "outer product of one column and one row. Each map has its own colours; its range stands over "
    "it.",
)


class FactorGenerator(nn.Module):
    """Turn one profile into r gates of the same length: (b, m) -> (b, r, m).

    The weights belong to the length n of the training crop. A profile of another length is
    resampled to n, and the gates are resampled back. At length n both are exact identities. So
    there is no branch on the size, and the module exports with dynamic shapes.
    """

    def __init__(self, length: int, rank: int) -> None:
        super().__init__()
        self.length, self.rank = length, rank
        # One matrix for all ranks: the same r independent n-by-n maps, in one product.
        self.linear = nn.Linear(length, rank * length, bias=False)
        self.gate = nn.Sigmoid()
        # Kaiming normal by the fan-out of one rank's map, as in r separate layers: a smaller start
        # leaves every gate near one half and the attention constant.
        nn.init.normal_(self.linear.weight, std=(2.0 / length) ** 0.5)

    def forward(self, profile_bm: Tensor) -> Tensor:
        profile_bn = _resample(profile_bm.unsqueeze(1), self.length).squeeze(1)
        logits_brn = self.linear(profile_bn).unflatten(1, (self.rank, -1))
        return _resample(self.gate(logits_brn), profile_bm.shape[-1])


class TensorReconstruction(LowRankCore):
    """TGM and TRM: re-weight a map by a rank-`rank` tensor generated from its own profiles.

    The weights of the ranks sum to 1. Those of a pruned network sum to what they summed to before,
    so that each rank keeps its weight.
    """

    words = WORDS
    multiplies = True
    pruned_options = MappingProxyType({"pruned": True})
    weight_sum: Tensor | None

    def __init__(self, features: FeatureSpec, *, rank: int = 64, pruned: bool = False) -> None:
        super().__init__()
        self.rank = rank
        self.channel = FactorGenerator(features.channels, rank)
        self.row = FactorGenerator(features.height, rank)
        self.column = FactorGenerator(features.width, rank)
        self.rank_logits_r = nn.Parameter(torch.zeros(rank))
        self.register_buffer("weight_sum", torch.ones(()) if pruned else None)

    def forward(self, x_bchw: Tensor) -> Tensor:
        return x_bchw * reconstruct(self.factors(x_bchw))

    def factors(self, x_bchw: Tensor) -> Factors:
        mean_bch = x_bchw.mean(dim=3)  # shared by two of the three pools
        row_brh = self.row(mean_bch.mean(dim=1))
        column_brw = self.column(x_bchw.mean(dim=(1, 2)))
        return Factors(
            weight_r=self.weights(),
            channel_brc=self.channel(mean_bch.mean(dim=2)),
            plane_brhw=outer_planes(row_brh, column_brw),
        )

    def weights(self) -> Tensor:
        """Return lambda, weight_r."""
        weight_r = self.rank_logits_r.softmax(dim=0)
        return weight_r if self.weight_sum is None else weight_r * self.weight_sum

    def state_of_ranks(self, kept: Sequence[int]) -> dict[str, Tensor]:
        ranks = list(kept)
        state = {
            f"{axis}.linear.weight": generator.linear.weight.detach()
            .unflatten(0, (self.rank, -1))[ranks]
            .flatten(0, 1)
            for axis, generator in self.named_children()
            if isinstance(generator, FactorGenerator)
        }
        state["rank_logits_r"] = self.rank_logits_r.detach()[ranks]
        # Softmax alone would make the kept weights sum to 1 again, and so enlarge the attention.
        state["weight_sum"] = self.weights().detach()[ranks].sum()
        return state


class GlobalPooling(nn.Module):
    """GPM: the mean over the image, through one 1x1 convolution, at every position."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x_bchw: Tensor) -> Tensor:
        pooled_bc11: Tensor = self.relu(self.conv(x_bchw.mean(dim=(2, 3), keepdim=True)))
        return pooled_bc11.expand_as(x_bchw)


class RecoNet(ContextModule):
    """c4 -> X; [X, A * X, pooled X] -> 1x1 convolution -> dropout. Both parts can be left out."""

    info = INFO
    core: TensorReconstruction | None

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        rank: PositiveInt = 64,
        tgm_trm: bool = True,
        gpm: bool = True,
        pruned: bool = False,
        dropout: Fraction = 0.05,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = stages.c4.channels // 4
        x = FeatureSpec(channels=channels, height=stages.c4.height, width=stages.c4.width)
        self.out_channels = channels
        self.reduce = conv_bn_relu(stages.c4.channels, channels, 3)
        self.core = TensorReconstruction(x, rank=rank, pruned=pruned) if tgm_trm else None
        self.pool = GlobalPooling(channels) if gpm else None
        self.fuse = conv_bn_relu(channels * (1 + tgm_trm + gpm), channels, 1)
        self.dropout = nn.Dropout2d(dropout)

    def forward(self, features: Features) -> Context:
        x_bchw = self.reduce(features.c4)
        parts = [part(x_bchw) for part in (self.core, self.pool) if part is not None]
        fused_bchw = self.fuse(torch.cat([x_bchw, *parts], dim=1))
        return Context(self.dropout(fused_bchw), {})

    def low_rank_head(self) -> LowRankHead | None:
        if self.core is None:
            return None
        return LowRankHead(self.reduce, self.core, self.pool, self.fuse)


def _resample(values_brn: Tensor, length: int) -> Tensor:
    # Linear, as a bilinear map of one row: on GPUs only that has a deterministic form.
    return resize(values_brn.unsqueeze(2), (1, length)).squeeze(2)
