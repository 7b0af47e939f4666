"""Tensor low-rank reconstruction (RecoNet).

The map is averaged into three profiles: over channels, over rows, over columns (the pools of the
TGM). Each profile generates r factor vectors. The weighted sum of their r outer products is the
attention (the TRM).

    x_bchw -> profiles bc, bh, bw -> factors brc, brh, brw -> attention_bchw -> x * attention

Without options this is the paper's form. Its attention hardly learns (docs/studies.md), so three
options change one thing each, at no more cost:

    profile_norm   profiles are standardised, so that a gate reacts to how an image differs from
                   its own mean and not to the mean, which is nearly the same for all images
    rank_weights   "sum": the ranks are added, not averaged, and so get larger gradients
    shared_basis   the channel gates of all ranks are mixtures of c/16 shared vectors: 16 times
                   fewer weights

`reconet explain` takes this context apart rank by rank (models/decompose.py), so it has no
attention_maps().

Dimensions: b batch, c channels, h rows, w columns, r rank, n the length of one axis, k vectors of
the basis.
"""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from reconet.models.context.base import ContextInfo, ContextModule
from reconet.models.features import Context, Features, FeatureSpec, Stages
from reconet.models.layers import conv_bn_relu, resize
from reconet.recipes.schema import Fraction

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
        "profile_norm": "standardise the profiles, so that gates react to what differs in an image",
        "rank_weights": '"mean" as in the paper, or "sum": larger gradients for each rank',
        "shared_basis": "make the channel gates of all ranks from c/16 shared vectors",
    },
)

RankWeights = Literal["mean", "sum"]


class Factors(NamedTuple):
    """Factors of a rank-r tensor: the attention is sum_r weight_r * c_r (outer) h_r (outer) w_r."""

    weight_r: Tensor
    channel_brc: Tensor
    row_brh: Tensor
    column_brw: Tensor


class FactorGenerator(nn.Module):
    """Turn one profile into r gates of the same length: (b, m) -> (b, r, m).

    The weights belong to the length n of the training crop. A profile of another length is
    resampled to n, and the gates are resampled back. At length n both are exact identities. So
    there is no branch on the size, and the module exports with dynamic shapes.
    """

    def __init__(
        self, length: int, rank: int, *, normalise: bool = False, basis: int | None = None
    ) -> None:
        super().__init__()
        self.length, self.rank, self.normalise = length, rank, normalise
        # One matrix for all ranks: the same r independent n-by-n maps, in one product.
        self.linear = nn.Linear(length, rank * (basis or length), bias=False)
        self.basis = None if basis is None else nn.Linear(basis, length, bias=False)
        self.gate = nn.Sigmoid()
        # Kaiming normal by the fan-out of one rank's map, as in r separate layers: a smaller start
        # leaves every gate near one half and the attention constant.
        nn.init.normal_(self.linear.weight, std=(2.0 / length) ** 0.5)
        if self.basis is not None:  # so that the sum over it is as large as without it
            nn.init.normal_(self.basis.weight, std=self.basis.in_features**-0.5)

    def forward(self, profile_bm: Tensor) -> Tensor:
        profile_bn = _resample(profile_bm.unsqueeze(1), self.length).squeeze(1)
        if self.normalise:
            profile_bn = F.layer_norm(profile_bn, (self.length,))
        logits_brn = self.linear(profile_bn).unflatten(1, (self.rank, -1))
        if self.basis is not None:
            logits_brn = self.basis(logits_brn)
        return _resample(self.gate(logits_brn), profile_bm.shape[-1])


class TensorReconstruction(nn.Module):
    """TGM and TRM: re-weight a map by a rank-`rank` tensor generated from its own profiles.

    The weights of the ranks sum to 1, or to r with rank_weights="sum". The weights of a pruned
    network sum to what they summed to before, so that each rank keeps its weight.
    """

    weight_sum: Tensor | None

    def __init__(
        self,
        features: FeatureSpec,
        *,
        rank: int = 64,
        pruned: bool = False,
        profile_norm: bool = False,
        rank_weights: RankWeights = "mean",
        shared_basis: bool = False,
    ) -> None:
        super().__init__()
        basis = max(1, features.channels // 16) if shared_basis else None
        self.channel = FactorGenerator(features.channels, rank, normalise=profile_norm, basis=basis)
        self.row = FactorGenerator(features.height, rank, normalise=profile_norm)
        self.column = FactorGenerator(features.width, rank, normalise=profile_norm)
        self.rank_logits_r = nn.Parameter(torch.zeros(rank))
        self.total = float(rank if rank_weights == "sum" else 1)
        self.register_buffer("weight_sum", torch.ones(()) if pruned else None)

    def forward(self, x_bchw: Tensor) -> Tensor:
        return x_bchw * reconstruct(self.factors(x_bchw))

    def factors(self, x_bchw: Tensor) -> Factors:
        mean_bch = x_bchw.mean(dim=3)  # shared by two of the three pools
        return Factors(
            weight_r=self.weights(),
            channel_brc=self.channel(mean_bch.mean(dim=2)),
            row_brh=self.row(mean_bch.mean(dim=1)),
            column_brw=self.column(x_bchw.mean(dim=(1, 2))),
        )

    def weights(self) -> Tensor:
        """Return lambda, weight_r."""
        total = self.total if self.weight_sum is None else self.weight_sum
        return self.rank_logits_r.softmax(dim=0) * total


def reconstruct(factors: Factors) -> Tensor:
    """Compute the attention_bchw of its factors, as one product (c x r) @ (r x hw).

    Nothing of size r x c x h x w ever exists: the weights go into the smallest factor, and rows and
    columns are joined first.
    """
    weight_r, channel_brc, row_brh, column_brw = factors
    plane_brn = (row_brh.unsqueeze(3) * column_brw.unsqueeze(2)).flatten(2)
    attention_bcn = (channel_brc * weight_r[:, None]).transpose(1, 2) @ plane_brn
    size = (channel_brc.shape[2], row_brh.shape[2], column_brw.shape[2])
    return attention_bcn.view(-1, *size)


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
        profile_norm: bool = False,
        rank_weights: RankWeights = "mean",
        shared_basis: bool = False,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = stages.c4.channels // 4
        x = FeatureSpec(channels=channels, height=stages.c4.height, width=stages.c4.width)
        self.out_channels = channels
        self.reduce = conv_bn_relu(stages.c4.channels, channels, 3)
        self.core = None
        if tgm_trm:
            self.core = TensorReconstruction(
                x,
                rank=rank,
                pruned=pruned,
                profile_norm=profile_norm,
                rank_weights=rank_weights,
                shared_basis=shared_basis,
            )
        self.pool = GlobalPooling(channels) if gpm else None
        self.fuse = conv_bn_relu(channels * (1 + tgm_trm + gpm), channels, 1)
        self.dropout = nn.Dropout2d(dropout)

    def forward(self, features: Features) -> Context:
        x_bchw = self.reduce(features.c4)
        parts = [part(x_bchw) for part in (self.core, self.pool) if part is not None]
        fused_bchw = self.fuse(torch.cat([x_bchw, *parts], dim=1))
        return Context(self.dropout(fused_bchw), {})


def _resample(values_brn: Tensor, length: int) -> Tensor:
    # Linear, as a bilinear map of one row: on GPUs only that has a deterministic form.
    return resize(values_brn.unsqueeze(2), (1, length)).squeeze(2)
