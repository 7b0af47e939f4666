"""Context reconstructed from fragments (RecoNet+): the low-rank tensor is the context itself.

Each rank gathers a fragment of the image with one mask and places it with another. In the paper's
form (reconet.py) the tensor re-weights the map; here it joins the map.

    gather_brhw     softmax_hw(f(x)): r masks that sum to 1
    fragment_brc    ReLU(W sum_hw gather_rhw x_chw + bias_rc): what each rank has seen
    place_brhw      sigmoid(p(x)): where its fragment belongs
    y_bchw          sum_r weight_r fragment_rc (x) place_rhw

f and p are 1x1 convolutions. With `separable` the masks are outer products of a column and a row,
as in the paper: y_bchw is then a sum of r rank-one tensors.

With one rank and flat masks this is exactly the paper's global pooling (GPM). No weight knows the
size of the crop. Like the paper's form it is taken apart rank by rank (models/decompose.py).

Dimensions: b batch, c channels, h rows, w columns, r rank, n length of one axis or all places.
"""

from collections.abc import Sequence

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
from reconet.models.context.reconet import GlobalPooling
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import conv_bn_relu
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Context reconstructed from fragments",
    paper="",
    idea="Each of r ranks gathers a fragment of the image with one mask and places it with "
    "another, and their sum joins the map.",
    options={
        "rank": "number of fragments, r",
        "separable": "make each mask from one column and one row, so that Y has rank r as a tensor",
        "gpm": "use global pooling too (GPM)",
        "dropout": "before the classifier",
    },
)


WORDS = RankWords(
    symbol="Y",
    name="reconstructed context",
    above="rank {} looks here",
    below="and adds here: Y_{}",
    title="Fragments of the image",
    about="Above, each map is the mask by which a rank gathers its fragment: where it looked. It "
    "sums to 1. Below it is Y_i, the mean over channels of what the rank adds: where it put the "
    "fragment. What the rank said stands in the table: the classes whose scores it raises and "
    "lowers most, and its strongest channels. Each map has its own colours; its range stands over "
    "it.",
)


class MapMasks(nn.Module):
    """Make masks from the map itself: x_bchw -> gather_brhw, place_brhw."""

    flat_place = 0.5  # the value of a mask that places, at logits of zero

    def __init__(self, channels: int, rank: int) -> None:
        super().__init__()
        # The masks that gather and those that place, side by side.
        self.conv = nn.Conv2d(channels, 2 * rank, 1)
        start_masks(self.conv)

    def forward(self, x_bchw: Tensor) -> tuple[Tensor, Tensor]:
        gather_brhw, place_brhw = self.conv(x_bchw).chunk(2, dim=1)
        gather_brn = gather_brhw.flatten(2).softmax(2)
        return gather_brn.view(place_brhw.shape), place_brhw.sigmoid()


class SeparableMasks(nn.Module):
    """Make masks that are outer products, from the map's means over rows and over columns."""

    flat_place = 0.25  # one half along each axis

    def __init__(self, channels: int, rank: int) -> None:
        super().__init__()
        # For each axis the masks that gather and those that place, side by side.
        self.row = nn.Linear(channels, 2 * rank)
        self.column = nn.Linear(channels, 2 * rank)
        start_masks(self.row)
        start_masks(self.column)

    def forward(self, x_bchw: Tensor) -> tuple[Tensor, Tensor]:
        gather_brh, place_brh = _masks(self.row, x_bchw.mean(3))
        gather_brw, place_brw = _masks(self.column, x_bchw.mean(2))
        return outer_planes(gather_brh, gather_brw), outer_planes(place_brh, place_brw)


def _masks(layer: nn.Linear, profile_bcn: Tensor) -> tuple[Tensor, Tensor]:
    """Return the masks along one axis that gather (they sum to 1) and that place (0 to 1)."""
    gather_brn, place_brn = layer(profile_bcn.transpose(1, 2)).transpose(1, 2).chunk(2, dim=1)
    return gather_brn.softmax(2), place_brn.sigmoid()


def start_masks(layer: nn.Conv2d | nn.Linear) -> None:
    """Give a layer its first weights. Masks that gather start nearly flat: the image's mean."""
    gather, place = layer.weight.data.chunk(2)
    channels = layer.weight.shape[1]
    nn.init.normal_(gather, std=0.01 / channels**0.5)
    nn.init.normal_(place, std=channels**-0.5)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)


class FragmentReconstruction(LowRankCore):
    """Gather r fragments of a map and lay them out again: x_bchw -> y_bchw."""

    words = WORDS
    multiplies = False

    def __init__(self, channels: int, *, rank: int = 16, separable: bool = False) -> None:
        super().__init__()
        kind = SeparableMasks if separable else MapMasks
        self.masks = kind(channels, rank)
        self.mix = nn.Linear(channels, channels, bias=False)
        self.bias_rc = nn.Parameter(torch.zeros(rank, channels))
        # With flat masks all ranks together start as the global pooling of the paper.
        self.weight_r = nn.Parameter(torch.full((rank,), 1 / (kind.flat_place * rank)))
        self.rank = rank
        nn.init.kaiming_normal_(self.mix.weight, nonlinearity="relu")

    def forward(self, x_bchw: Tensor) -> Tensor:
        return reconstruct(self.factors(x_bchw))

    def factors(self, x_bchw: Tensor) -> Factors:
        """Gather the fragments of a map, and choose where they belong."""
        gather_brhw, place_brhw = self.masks(x_bchw)
        seen_brc = gather_brhw.flatten(2) @ x_bchw.flatten(2).transpose(1, 2)
        return Factors(self.weight_r, self.say(seen_brc), place_brhw)

    def say(self, seen_brc: Tensor) -> Tensor:
        """Return the fragments: what each rank says about what it has seen."""
        return torch.relu(self.mix(seen_brc) + self.bias_rc)

    def gather_masks(self, x_bchw: Tensor) -> Tensor:
        gather_brhw: Tensor = self.masks(x_bchw)[0]
        return gather_brhw

    def state_of_ranks(self, kept: Sequence[int]) -> dict[str, Tensor]:
        ranks = list(kept)
        state = {name: value.detach() for name, value in self.state_dict().items()}
        for name, value in state.items():
            if name in ("bias_rc", "weight_r"):
                state[name] = value[ranks]
            elif name.startswith("masks."):
                # Masks that gather, then masks that place.
                state[name] = value.unflatten(0, (2, self.rank))[:, ranks].flatten(0, 1)
        return state


class RecoNetPlus(ContextModule):
    """c4 -> X; [X, Y, perhaps pooled X] -> 1x1 convolution -> dropout, Y rebuilt from fragments."""

    info = INFO
    core: FragmentReconstruction

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        rank: PositiveInt = 16,
        separable: bool = False,
        gpm: bool = False,
        dropout: Fraction = 0.05,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = stages.c4.channels // 4
        self.out_channels = channels
        self.reduce = conv_bn_relu(stages.c4.channels, channels, 3)
        self.core = FragmentReconstruction(channels, rank=rank, separable=separable)
        self.pool = GlobalPooling(channels) if gpm else None
        self.fuse = conv_bn_relu(channels * (2 + gpm), channels, 1)
        self.dropout = nn.Dropout2d(dropout)

    def forward(self, features: Features) -> Context:
        x_bchw = self.reduce(features.c4)
        parts = [x_bchw, self.core(x_bchw)]
        if self.pool is not None:
            parts.append(self.pool(x_bchw))
        return Context(self.dropout(self.fuse(torch.cat(parts, dim=1))), {})

    def low_rank_head(self) -> LowRankHead:
        return LowRankHead(self.reduce, self.core, self.pool, self.fuse)
