"""Other forms of RecoNet+, each with one change to it, to be compared with it by a study.

reconet study contexts --import tools/forms.py --recipe voc12/frozen_r50 --seeds 0-2 \
    --variants reconet_plus,plus_signed,plus_two_rounds --baseline reconet_plus

docs/studies says what they scored. Ranks are an option of RecoNet+, and need no form here. All
forms but those with `start` in their names begin as global pooling does, whatever their masks.

Dimensions: b batch, c channels, h rows, w columns, r rank.
"""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

import reconet
from reconet.models.context.low_rank import LowRankHead
from reconet.models.context.reconet_plus import (
    FragmentReconstruction,
    MapMasks,
    RecoNetPlus,
    SeparableMasks,
)
from reconet.models.features import Context, Features, Stages

HIDDEN = 8  # channels between the two factors of a matrix per rank


class StartWeight(FragmentReconstruction):
    """Start the weights of the ranks at another sum."""

    def __init__(self, channels: int, *, rank: int = 16, times: float) -> None:
        super().__init__(channels, rank=rank)
        self.weight_r.data *= times


class SharpStart(FragmentReconstruction):
    """Start masks that gather as different as masks that place, instead of flat."""

    def __init__(self, channels: int, *, rank: int = 16) -> None:
        super().__init__(channels, rank=rank)
        assert isinstance(self.masks, MapMasks)
        nn.init.normal_(self.masks.conv.weight.data[:rank], std=2 * channels**-0.5)


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


class Signed(FragmentReconstruction):
    """Let fragments be negative."""

    def say(self, seen_brc: Tensor) -> Tensor:
        fragment_brc: Tensor = self.mix(seen_brc) + self.bias_rc
        return fragment_brc


class MixedMasks(nn.Module):
    """Gather by masks of one kind, and place by those of the other."""

    def __init__(self, channels: int, rank: int, *, gather_from_map: bool) -> None:
        super().__init__()
        kinds = (MapMasks, SeparableMasks) if gather_from_map else (SeparableMasks, MapMasks)
        self.gather, self.place = (kind(channels, rank) for kind in kinds)

    def forward(self, x_bchw: Tensor) -> tuple[Tensor, Tensor]:
        return self.gather(x_bchw)[0], self.place(x_bchw)[1]


class Mixed(FragmentReconstruction):
    """Make only the masks that gather, or only those that place, from the map."""

    def __init__(self, channels: int, *, rank: int = 16, gather_from_map: bool) -> None:
        super().__init__(channels, rank=rank, separable=gather_from_map)
        self.masks = MixedMasks(channels, rank, gather_from_map=gather_from_map)  # type: ignore[assignment]


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


class Separable(RecoNetPlus):
    """RecoNet+ with masks from rows and columns, as in the paper."""

    def __init__(self, stages: Stages, *, num_classes: int) -> None:
        super().__init__(stages, num_classes=num_classes, separable=True)


class WithPooling(RecoNetPlus):
    """RecoNet+ with global pooling beside it."""

    def __init__(self, stages: Stages, *, num_classes: int) -> None:
        super().__init__(stages, num_classes=num_classes, gpm=True)


CORES: Mapping[str, Callable[[int], FragmentReconstruction]] = {
    "gather_by_rows": partial(Mixed, gather_from_map=False),
    "place_by_rows": partial(Mixed, gather_from_map=True),
    "sharp_start": SharpStart,
    "start_quarter": partial(StartWeight, times=1 / 4),
    "start_times_4": partial(StartWeight, times=4),
    "matrix_per_rank": MatrixPerRank,
    "scale_per_rank": ScalePerRank,
    "signed": Signed,
    "two_rounds": TwoRounds,
}
FORMS: Mapping[str, type[RecoNetPlus]] = {
    "plus_separable": Separable,
    "plus_gpm": WithPooling,
    "plus_gate": Gated,
    **{
        f"plus_{name}": type(name, (OtherCore,), {"make_core": staticmethod(core)})
        for name, core in CORES.items()
    },
}
reconet.CONTEXTS.update(FORMS)
