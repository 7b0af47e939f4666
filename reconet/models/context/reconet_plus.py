"""Context reconstructed from fragments (RecoNet+): the low-rank tensor is the context itself.

Each rank gathers a fragment of the image with a separable mask and places it with another. In the
paper's form (reconet.py) the tensor re-weights the map; here it joins the map.

    rows_bch, columns_bcw       means of x_bchw over columns and over rows; they keep their channels
    gather_brhw                 softmax_h(f(rows)) (x) softmax_w(g(columns)): r masks that sum to 1
    fragment_brc                ReLU(W sum_hw gather_rhw x_chw + bias_rc): what each rank has seen
    place_brhw                  sigmoid(p(rows)) (x) sigmoid(q(columns)): where its fragment belongs
    y_bchw                      sum_r weight_r fragment_rc (x) place_rh (x) place_rw

With one rank and flat masks this is exactly the paper's global pooling (GPM). No weight knows the
size of the crop. Like the paper's form it is taken apart rank by rank (models/decompose.py).

Dimensions: b batch, c channels, h rows, w columns, r rank, n length of one axis.
"""

from collections.abc import Sequence

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from reconet.models.context.base import ContextInfo, ContextModule
from reconet.models.context.low_rank import (
    Factors,
    GatherMasks,
    LowRankCore,
    LowRankHead,
    RankWords,
    reconstruct,
)
from reconet.models.context.reconet import GlobalPooling
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import conv_bn_relu
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Context reconstructed from fragments",
    paper="",
    idea="Each of r ranks gathers a fragment of the image with a separable mask and places it with "
    "another, and their sum joins the map.",
    options={
        "rank": "number of fragments, r",
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
    "fragment. Both are an outer product of one column and one row. What the rank said stands in "
    "the table: the classes whose scores it raises and lowers most, and its strongest channels. "
    "Each map has its own colours; its range stands over it.",
    if_constant="so that it adds the same to all channels at every place.",
    curves=(
        "channels: fragment (above: sorted)",
        "rows, top to bottom: place",
        "columns, left to right: place",
    ),
    curves_title="Factors",
    curves_about="What the outer products are made of: the fragment along channels, and the masks "
    "along rows and columns that place it, then those that gather it. Curves of the shown ranks, "
    "and below them every rank as one row.",
)


class FragmentReconstruction(LowRankCore):
    """Gather r fragments of a map and lay them out again: x_bchw -> y_bchw."""

    words = WORDS
    multiplies = False

    def __init__(self, channels: int, *, rank: int = 16) -> None:
        super().__init__()
        # For each axis the masks that gather and those that place, side by side.
        self.row_masks = nn.Linear(channels, 2 * rank)
        self.column_masks = nn.Linear(channels, 2 * rank)
        self.mix = nn.Linear(channels, channels, bias=False)
        self.bias_rc = nn.Parameter(torch.zeros(rank, channels))
        self.weight_r = nn.Parameter(torch.full((rank,), 4.0 / rank))
        self.rank = rank
        for masks in (self.row_masks, self.column_masks):
            gather, place = masks.weight.data.chunk(2)
            # Near zero, so that every rank starts as the mean of the image.
            nn.init.normal_(gather, std=0.01 / channels**0.5)
            nn.init.normal_(place, std=channels**-0.5)
            masks.bias.data.zero_()
        nn.init.kaiming_normal_(self.mix.weight, nonlinearity="relu")

    def forward(self, x_bchw: Tensor) -> Tensor:
        return reconstruct(self.factors(x_bchw))

    def factors(self, x_bchw: Tensor) -> Factors:
        """Gather the fragments of a map, and choose where they belong."""
        gather_brh, place_brh = self._masks(self.row_masks, x_bchw.mean(3))
        gather_brw, place_brw = self._masks(self.column_masks, x_bchw.mean(2))
        plane_brn = (gather_brh.unsqueeze(3) * gather_brw.unsqueeze(2)).flatten(2)
        seen_brc = plane_brn @ x_bchw.flatten(2).transpose(1, 2)
        return Factors(self.weight_r, self.say(seen_brc), place_brh, place_brw)

    def say(self, seen_brc: Tensor) -> Tensor:
        """Return the fragments: what each rank says about what it has seen."""
        return torch.relu(self.mix(seen_brc) + self.bias_rc)

    def gather_masks(self, x_bchw: Tensor) -> GatherMasks:
        gather_brh, _ = self._masks(self.row_masks, x_bchw.mean(3))
        gather_brw, _ = self._masks(self.column_masks, x_bchw.mean(2))
        return GatherMasks(gather_brh, gather_brw)

    def state_of_ranks(self, kept: Sequence[int]) -> dict[str, Tensor]:
        ranks = list(kept)
        state = {name: value.detach() for name, value in self.state_dict().items()}
        for name in ("bias_rc", "weight_r"):
            state[name] = state[name][ranks]
        for axis in ("row_masks", "column_masks"):
            for name in (f"{axis}.weight", f"{axis}.bias"):
                # Masks that gather, then masks that place.
                state[name] = state[name].unflatten(0, (2, self.rank))[:, ranks].flatten(0, 1)
        return state

    def _masks(self, masks: nn.Linear, profile_bcn: Tensor) -> tuple[Tensor, Tensor]:
        """Return the masks along one axis that gather (they sum to 1) and that place (0 to 1)."""
        gather_brn, place_brn = masks(profile_bcn.transpose(1, 2)).transpose(1, 2).chunk(2, dim=1)
        return gather_brn.softmax(2), place_brn.sigmoid()


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
        gpm: bool = False,
        dropout: Fraction = 0.05,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = stages.c4.channels // 4
        self.out_channels = channels
        self.reduce = conv_bn_relu(stages.c4.channels, channels, 3)
        self.core = FragmentReconstruction(channels, rank=rank)
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
