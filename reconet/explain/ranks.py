"""Measure what each rank is and does.

T is the tensor of the context: the attention A of reconet, the reconstructed context Y of
reconet_plus. How much of it a rank carries is the size of its part, the product of channels and a
plane: |T_i| = |lambda_i| |c_i| |p_i| (Frobenius). "n ranks carry 90 %" has three meanings, and all
three are given:

    norm      fewest ranks whose |T_i| sum to 90 % of the sum of all
    energy    the same with squares, |T_i|^2, where large ranks count for more
    singular  fewest rank-one terms of the *best* approximation of T, unfolded along its channels,
              that hold 90 % of |T|^2: how many patterns there are at all. The ranks are not
              orthogonal (no factor is negative), so this is often 1 where the others are many.

Dimensions: r rank, k classes, h rows, w columns, n anything.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reconet.errors import RecipeError
from reconet.models.context.low_rank import Factors, RankWords
from reconet.models.decompose import Decomposition
from reconet.models.liveness import Liveness, liveness, singular_values
from reconet.system.readable import counted

SHARES = (0.9, 0.99)
CHANNELS = 3  # the strongest channels of a rank that are named


class Contributions(NamedTuple):
    """The output of the network minus its output with a rank switched off."""

    logit_rk: Tensor  # mean over places of the class's score, relative to the mean of all classes
    probability_rk: Tensor  # mean over places of the class's probability
    changed_rk: Tensor  # of the places that had the class's label, the part that got another
    places_k: Tensor  # how many places had its label; the map's places, not the image's pixels


class RankMaps(NamedTuple):
    """A rank whose maps are drawn."""

    rank: int
    weight: float  # lambda
    share: float  # of the sum of norms
    heat_hw: Tensor  # mean over channels of what the rank adds: A_i * X, or Y_i
    tensor_hw: Tensor  # mean over channels of A_i or Y_i
    gather_hw: Tensor | None  # where the rank looked, if ranks choose that
    channels: tuple[int, ...]  # largest of its factor along channels
    likeness: float  # correlation of the heat with the mean of X itself; 1: the map is X again

    def upper_hw(self) -> Tensor:
        """Return the map to show first: where the rank looked, or what it lets through."""
        return self.heat_hw if self.gather_hw is None else self.gather_hw


@dataclass(frozen=True, kw_only=True, eq=False)
class RankAnalysis:
    """All that is measured of the ranks of one image."""

    words: RankWords
    factors: Factors
    gather_brhw: Tensor | None
    norm_r: Tensor
    singular_r: Tensor
    liveness: Liveness
    mean_x_hw: Tensor
    mean_tensor_hw: Tensor
    contributions: Contributions
    shown: tuple[RankMaps, ...]

    def carried(self) -> dict[str, dict[str, int]]:
        """Count the ranks that carry 90 and 99 % of the tensor, by three measures."""
        sizes = {
            "norm": self.norm_r,
            "energy": self.norm_r.square(),
            "singular": self.singular_r.square(),
        }
        return {
            name: {f"{100 * share:g}": count_to_reach(size_r, share) for share in SHARES}
            for name, size_r in sizes.items()
        }

    def looked_at(self) -> Tensor | None:
        """Compute what part of the image each rank looks at, part_r; 1: all places alike."""
        return None if self.gather_brhw is None else gathered_part(self.gather_brhw)

    def as_dict(self, classes: tuple[str, ...]) -> dict[str, Any]:
        """Return plain values for JSON. Of the maps only their ranges."""
        given, looked_r = self.contributions, self.looked_at()
        return {
            "rank": len(self.norm_r),
            "liveness": self.liveness._asdict(),
            "ranks_that_carry_percent": self.carried(),
            "lambda": self.factors.weight_r.tolist(),
            "norm": self.norm_r.tolist(),
            "singular": self.singular_r.tolist(),
            "shown": [
                {
                    "rank": one.rank,
                    "lambda": one.weight,
                    "share_of_norms": one.share,
                    "heat_range": value_range(one.heat_hw),
                    "attention_range": value_range(one.tensor_hw),
                    "likeness_to_x": one.likeness,
                    "looks_at": None if looked_r is None else looked_r[one.rank].item(),
                    "strongest_channels": list(one.channels),
                }
                for one in self.shown
            ],
            "contributions": {
                "classes": list(classes),
                "places": given.places_k.tolist(),
                "logit": given.logit_rk.tolist(),
                "probability": given.probability_rk.tolist(),
                "label_changed": given.changed_rk.tolist(),
            },
        }


def measure_ranks(parts: Decomposition, shown: tuple[int, ...]) -> RankAnalysis:
    """Measure the ranks of one image, and keep the maps of the `shown` ones."""
    norm_r = norms(parts.factors)
    mean_x_hw = parts.x_bchw[0].mean(0)
    channels = min(CHANNELS, parts.x_bchw.shape[1])

    def maps(rank: int) -> RankMaps:
        heat_hw = parts.heat(rank)
        return RankMaps(
            rank=rank,
            weight=parts.factors.weight_r[rank].item(),
            share=(norm_r[rank] / norm_r.sum()).item(),
            heat_hw=heat_hw,
            tensor_hw=parts.tensor_heat(rank),
            gather_hw=parts.gathered(rank),
            channels=tuple(parts.factors.channel_brc[0, rank].topk(channels).indices.tolist()),
            likeness=likeness(heat_hw, mean_x_hw),
        )

    return RankAnalysis(
        words=parts.core.words,
        factors=parts.factors,
        gather_brhw=parts.gather_brhw,
        norm_r=norm_r,
        singular_r=singular_values(parts.factors, "channel")[0],
        liveness=liveness(parts.factors),
        mean_x_hw=mean_x_hw,
        mean_tensor_hw=parts.tensor()[0].mean(0),
        contributions=measure_contributions(parts),
        shown=tuple(map(maps, shown)),
    )


def choose_ranks(weight_r: Tensor, text: str) -> tuple[int, ...]:
    """Parse ranks: "4" is the four of largest lambda, "3,17" are these, "7," is rank 7."""
    parts = [part.strip() for part in text.split(",")]
    numbers = [int(part) for part in parts if part.isdecimal()]
    rank = len(weight_r)
    if not numbers or len(numbers) != len([part for part in parts if part]):
        raise RecipeError(
            f"--ranks takes a number, or a list such as 3,17,40 ('7,' is rank 7), got {text!r}."
        )
    if len(parts) > 1:
        if max(numbers) >= rank:
            raise RecipeError(f"there is no rank {max(numbers)}: they go from 0 to {rank - 1}.")
        if len(set(numbers)) < len(numbers):
            raise RecipeError(f"--ranks names a rank twice: {text!r}.")
        return tuple(numbers)
    if not 1 <= numbers[0] <= rank:
        raise RecipeError(f"--ranks must be from 1 to the network's rank {rank}, got {text}.")
    return tuple(weight_r.abs().argsort(descending=True, stable=True)[: numbers[0]].tolist())


def liveness_line(analysis: RankAnalysis) -> str:
    """Say in one line how much tensor and lambda vary."""
    alive = analysis.liveness
    return (
        f"{analysis.words.name} varies by {100 * alive.attention_spread:.1f} % around its mean, "
        f"effective rank {alive.effective_rank:.2f}; lambda varies by "
        f"{100 * alive.lambda_spread:.2g} % over {counted(len(analysis.norm_r), 'rank')}"
    )


def norms(factors: Factors) -> Tensor:
    """Compute |T_i| of one image, norm_r, as the product of the norms of its factors."""
    channel_r = factors.channel_brc[0].cpu().double().norm(dim=1)
    plane_r = factors.plane_brhw[0].cpu().double().flatten(1).norm(dim=1)
    norm_r: Tensor = factors.weight_r.cpu().double().abs() * channel_r * plane_r
    return norm_r


def gathered_part(gather_brhw: Tensor) -> Tensor:
    """Compute what part of one image each mask covers, part_r: exp of its entropy over all places.

    A mask that is flat on some places and zero elsewhere covers just the part that they are.
    """
    mask_rn = gather_brhw[0].cpu().double().flatten(1)
    part_r: Tensor = torch.special.entr(mask_rn).sum(1).exp() / mask_rn.shape[1]
    return part_r


def count_to_reach(size_n: Tensor, share: float) -> int:
    """Count how many of the largest make up a share of the sum."""
    total_n = size_n.cpu().double().sort(descending=True).values.cumsum(0)
    # A share that is reached but for rounding is reached.
    return int((total_n < share * total_n[-1] * (1 - 1e-9)).sum()) + 1


def measure_contributions(parts: Decomposition) -> Contributions:
    """Switch off each rank in turn. Only the norm, ReLU and classifier are computed again."""
    logits = parts.leave_one_out()
    whole_kn = next(logits)[0].flatten(1)
    label_n = whole_kn.argmax(0)
    places_k = torch.bincount(label_n, minlength=len(whole_kn))
    rows = []
    for off_bkij in logits:
        off_kn = off_bkij[0].flatten(1)
        change_kn = whole_kn - off_kn
        changed_n = off_kn.argmax(0) != label_n
        rows.append(
            (
                (change_kn - change_kn.mean(0)).mean(1),
                (whole_kn.softmax(0) - off_kn.softmax(0)).mean(1),
                torch.bincount(label_n[changed_n], minlength=len(whole_kn)) / places_k.clamp(min=1),
            )
        )
    logit_rk, probability_rk, changed_rk = (
        torch.stack(rows_k) for rows_k in zip(*rows, strict=True)
    )
    return Contributions(logit_rk, probability_rk, changed_rk, places_k)


def strongest(value_rk: Tensor, most: int) -> list[tuple[int, int, float]]:
    """List the entries of largest size: (rank, class, value)."""
    order = value_rk.abs().flatten().argsort(descending=True)[:most].tolist()
    pairs = [divmod(place, value_rk.shape[1]) for place in order]
    return [(rank, number, value_rk[rank, number].item()) for rank, number in pairs]


def likeness(first_hw: Tensor, second_hw: Tensor) -> float:
    """Compute the correlation of two maps; 0 where one of them is constant."""
    first_n, second_n = (map_hw.flatten().cpu().double() for map_hw in (first_hw, second_hw))
    first_n, second_n = first_n - first_n.mean(), second_n - second_n.mean()
    size = first_n.norm() * second_n.norm()
    return (first_n @ second_n / size).item() if size > 0 else 0.0


def value_range(map_hw: Tensor) -> tuple[float, float]:
    return map_hw.min().item(), map_hw.max().item()
