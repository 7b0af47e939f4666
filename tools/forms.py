"""Other forms of RecoNet+, each with one change, to be compared with it by a study.

reconet study contexts --import tools/forms.py --recipe voc12/frozen_r50 --seeds 0-2 \
    --variants reconet_plus,plus_signed,plus_two_rounds,plus_gate --baseline reconet_plus

docs/studies.md says what they scored. Ranks and global pooling are options of reconet_plus, and
need no form here. All forms start as large as reconet_plus does: one flat rank of weight 4.

Dimensions: b batch, c channels, h rows, w columns, r rank, n places of the map.
"""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

import reconet
from reconet.models.context.low_rank import LowRankHead
from reconet.models.context.reconet_plus import FragmentReconstruction, RecoNetPlus
from reconet.models.features import Context, Features, Stages

HIDDEN = 8  # channels between the two factors of a matrix per rank


class StartWeight(FragmentReconstruction):
    """Start the weights of the ranks at another sum than 4."""

    def __init__(self, channels: int, *, rank: int = 16, start: float) -> None:
        super().__init__(channels, rank=rank)
        self.weight_r.data.fill_(start / rank)


class MatrixPerRank(FragmentReconstruction):
    """Add a matrix of rank HIDDEN for each rank to the one that all ranks share."""

    def __init__(self, channels: int, *, rank: int = 16) -> None:
        super().__init__(channels, rank=rank)
        self.down_rck = nn.Parameter(torch.randn(rank, channels, HIDDEN) * channels**-0.5)
        self.up_rkc = nn.Parameter(torch.zeros(rank, HIDDEN, channels))

    def say(self, seen_brc: Tensor) -> Tensor:
        own_brc = torch.einsum("brc,rck,rkd->brd", seen_brc, self.down_rck, self.up_rkc)
        return torch.relu(self.mix(seen_brc) + own_brc + self.bias_rc)


class ScalePerRank(FragmentReconstruction):
    """Give each rank channels of its own: a scale per rank and channel before the bias."""

    def __init__(self, channels: int, *, rank: int = 16) -> None:
        super().__init__(channels, rank=rank)
        self.scale_rc = nn.Parameter(torch.randn(rank, channels))

    def say(self, seen_brc: Tensor) -> Tensor:
        return torch.relu(self.mix(seen_brc) * self.scale_rc + self.bias_rc)


class SharpStart(FragmentReconstruction):
    """Start masks that gather as different as masks that place, instead of flat."""

    def __init__(self, channels: int, *, rank: int = 16, start: float = 4.0) -> None:
        super().__init__(channels, rank=rank)
        self.weight_r.data.fill_(start / rank)
        for masks in (self.row_masks, self.column_masks):
            nn.init.normal_(masks.weight.data[:rank], std=2 * channels**-0.5)


class Signed(FragmentReconstruction):
    """Let fragments be negative."""

    def say(self, seen_brc: Tensor) -> Tensor:
        fragment_brc: Tensor = self.mix(seen_brc) + self.bias_rc
        return fragment_brc


class MapMasks(FragmentReconstruction):
    """Make masks from the map instead of from its rows and columns: not separable any more."""

    def __init__(self, channels: int, *, rank: int = 16, gather: bool, place: bool) -> None:
        super().__init__(channels, rank=rank)
        self.gather = nn.Conv2d(channels, rank, 1) if gather else None
        self.place = nn.Conv2d(channels, rank, 1) if place else None
        if self.gather is not None:
            nn.init.normal_(self.gather.weight, std=0.01 / channels**0.5)
        if gather and place:
            del self.row_masks, self.column_masks

    def forward(self, x_bchw: Tensor) -> Tensor:
        if self.gather is None or self.place is None:
            gather_brn, place_brn = self.planes(x_bchw)
        if self.gather is not None:
            gather_brn = self.gather(x_bchw).flatten(2).softmax(2)
        if self.place is not None:
            place_brn = self.place(x_bchw).flatten(2).sigmoid() / 2  # 1/4 at the start, as others
        fragment_brc = self.say(gather_brn @ x_bchw.flatten(2).transpose(1, 2))
        y_bcn = (fragment_brc * self.weight_r[:, None]).transpose(1, 2) @ place_brn
        return y_bcn.view_as(x_bchw)

    def planes(self, x_bchw: Tensor) -> tuple[Tensor, Tensor]:
        """Return the separable masks that gather and place, as planes."""
        rows = self._masks(self.row_masks, x_bchw.mean(3))
        columns = self._masks(self.column_masks, x_bchw.mean(2))
        gather_brn, place_brn = (
            (row_brh.unsqueeze(3) * column_brw.unsqueeze(2)).flatten(2)
            for row_brh, column_brw in zip(rows, columns, strict=True)
        )
        return gather_brn, place_brn


class TwoRounds(FragmentReconstruction):
    """Reconstruct again from the map with its first context."""

    def __init__(self, channels: int, *, rank: int = 16) -> None:
        super().__init__(channels, rank=rank)
        self.second = FragmentReconstruction(channels, rank=rank)

    def forward(self, x_bchw: Tensor) -> Tensor:
        first_bchw = super().forward(x_bchw)
        second_bchw: Tensor = self.second(x_bchw + first_bchw)
        return first_bchw + second_bchw


class Gated(RecoNetPlus):
    """Put a gate of rank r beside the fragments: X is multiplied by 1 + tanh(tensor)."""

    def __init__(self, stages: Stages, *, num_classes: int) -> None:
        super().__init__(stages, num_classes=num_classes)
        self.gate = Signed(self.out_channels)
        self.gate.weight_r.data.zero_()  # so that the gate starts at 1

    def forward(self, features: Features) -> Context:
        x_bchw = self.reduce(features.c4)
        parts = [x_bchw * (1 + self.gate(x_bchw).tanh()), self.core(x_bchw)]
        return Context(self.dropout(self.fuse(torch.cat(parts, dim=1))), {})


class Opaque(nn.Module):
    """A core whose result is not the tensor of its factors: a study has no figures of its ranks."""

    def __init__(self, core: FragmentReconstruction) -> None:
        super().__init__()
        self.inside = core

    def forward(self, x_bchw: Tensor) -> Tensor:
        y_bchw: Tensor = self.inside(x_bchw)
        return y_bchw


CORES: Mapping[str, Callable[[int], FragmentReconstruction]] = {
    "plus_start_1": partial(StartWeight, start=1.0),
    "plus_start_16": partial(StartWeight, start=16.0),
    "plus_matrix_per_rank": MatrixPerRank,
    "plus_scale_per_rank": ScalePerRank,
    "plus_sharp_start": SharpStart,
    "plus_sharp_start_1": partial(SharpStart, start=1.0),
    "plus_signed": Signed,
    "plus_gather_map": partial(MapMasks, gather=True, place=False),
    "plus_place_map": partial(MapMasks, gather=False, place=True),
    "plus_maps": partial(MapMasks, gather=True, place=True),
    "plus_two_rounds": TwoRounds,
}


class OtherCore(RecoNetPlus):
    """RecoNet+ with another core."""

    make_core: Callable[[int], FragmentReconstruction]

    def __init__(self, stages: Stages, *, num_classes: int) -> None:
        super().__init__(stages, num_classes=num_classes)
        core = type(self).make_core(self.out_channels)
        is_sum = type(core).forward is FragmentReconstruction.forward
        self.core = core if is_sum else Opaque(core)  # type: ignore[assignment]

    def low_rank_head(self) -> LowRankHead | None:  # type: ignore[override]
        return None if isinstance(self.core, Opaque) else super().low_rank_head()


for _name, _core in CORES.items():
    reconet.CONTEXTS[_name] = type(_name, (OtherCore,), {"make_core": staticmethod(_core)})
reconet.CONTEXTS["plus_gate"] = Gated
