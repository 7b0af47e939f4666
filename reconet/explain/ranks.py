"""What each rank is and does, in numbers. Pure: a look inside a network in, figures out.

How much of the attention a rank carries is the size of its rank-one tensor,
|A_i| = lambda_i |c_i| |h_i| |w_i| (Frobenius). "n ranks carry 90 %" can be said in three ways, and
all three are given:

    norm      fewest ranks whose |A_i| sum to 90 % of the sum of all
    energy    the same with squares, |A_i|^2, where large ranks count for more
    singular  fewest rank-one terms of the *best* approximation of A, unfolded along its channels,
              that hold 90 % of |A|^2: how many patterns there are at all. The ranks are not
              orthogonal (all gates are positive), so this is often 1 where the others are many.

Dimensions: r rank, k classes, h rows, w columns, n anything.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reconet.errors import RecipeError
from reconet.models.context.reconet import Factors
from reconet.models.decompose import Inside
from reconet.models.liveness import Liveness, liveness, singular_values

SHARES = (0.9, 0.99)


class Contributions(NamedTuple):
    """What is lost without a rank: the network's answer minus its answer with the rank off."""

    logit_rk: Tensor  # mean over places of the class's score, relative to the mean of all classes
    probability_rk: Tensor  # mean over places of the class's probability
    changed_rk: Tensor  # of the places that had the class's label, the part that got another
    places_k: Tensor  # how many places had its label; the map's places, not the image's pixels


class Shown(NamedTuple):
    """A rank whose maps are drawn."""

    rank: int
    weight: float  # lambda
    share: float  # of the sum of norms
    heat_hw: Tensor  # mean over channels of A_i * X
    attention_hw: Tensor  # mean over channels of A_i
    likeness: float  # correlation of the heat with the mean of X itself; 1: the map is X again


@dataclass(frozen=True, kw_only=True, eq=False)
class Anatomy:
    """All that is known of the ranks of one image."""

    factors: Factors
    norm_r: Tensor
    singular_r: Tensor
    liveness: Liveness
    mean_x_hw: Tensor
    mean_attention_hw: Tensor
    contributions: Contributions
    shown: tuple[Shown, ...]

    def carried(self) -> dict[str, dict[str, int]]:
        """How many ranks carry 90 and 99 % of the attention, by each of the three measures."""
        sizes = {
            "norm": self.norm_r,
            "energy": self.norm_r.square(),
            "singular": self.singular_r.square(),
        }
        return {
            name: {f"{100 * share:g}": fewest(size_r, share) for share in SHARES}
            for name, size_r in sizes.items()
        }

    def as_dict(self, classes: tuple[str, ...]) -> dict[str, Any]:
        """Plain values for JSON; of the maps only their ranges."""
        given = self.contributions
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
                    "heat_range": extent(one.heat_hw),
                    "attention_range": extent(one.attention_hw),
                    "likeness_to_x": one.likeness,
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


def anatomy(inside: Inside, shown: tuple[int, ...]) -> Anatomy:
    """Take the ranks of one image apart; the maps of the `shown` ones are kept."""
    norm_r = norms(inside.factors)
    mean_x_hw = inside.x_bchw[0].mean(0)

    def show(rank: int) -> Shown:
        heat_hw = inside.heat(rank)
        return Shown(
            rank=rank,
            weight=inside.factors.weight_r[rank].item(),
            share=(norm_r[rank] / norm_r.sum()).item(),
            heat_hw=heat_hw,
            attention_hw=inside.attention_heat(rank),
            likeness=likeness(heat_hw, mean_x_hw),
        )

    return Anatomy(
        factors=inside.factors,
        norm_r=norm_r,
        singular_r=singular_values(inside.factors, "channel")[0],
        liveness=liveness(inside.factors),
        mean_x_hw=mean_x_hw,
        mean_attention_hw=inside.attention()[0].mean(0),
        contributions=contributions(inside),
        shown=tuple(map(show, shown)),
    )


def chosen(weight_r: Tensor, text: str) -> tuple[int, ...]:
    """Ranks from a text: "4" is the four of largest lambda, "3,17" are these, "7," is rank 7."""
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
    return tuple(weight_r.argsort(descending=True, stable=True)[: numbers[0]].tolist())


def in_a_line(anatomy: Anatomy) -> str:
    """How much the attention does, for a terminal."""
    alive = anatomy.liveness
    return (
        f"attention varies by {100 * alive.attention_spread:.1f} % around its mean, effective rank "
        f"{alive.effective_rank:.2f}; lambda varies by {100 * alive.lambda_spread:.2g} % over "
        f"{len(anatomy.norm_r)} ranks"
    )


def norms(factors: Factors) -> Tensor:
    """|A_i| of one image, norm_r: a rank-one tensor's norm is the product of its factors'."""
    lengths = [factor_brn[0].double().norm(dim=1) for factor_brn in factors[1:]]
    return factors.weight_r.double() * torch.stack(lengths).prod(0)


def fewest(size_n: Tensor, share: float) -> int:
    """How many of the largest make up a share of the sum."""
    total_n = size_n.double().sort(descending=True).values.cumsum(0)
    # A share that is reached but for rounding is reached.
    return int((total_n < share * total_n[-1] * (1 - 1e-9)).sum()) + 1


def contributions(inside: Inside) -> Contributions:
    """Switch off each rank in turn: only the norm, ReLU and classifier are computed again."""
    answers = inside.one_by_one()
    whole_kn = next(answers)[0].flatten(1)
    said_n = whole_kn.argmax(0)
    places_k = torch.bincount(said_n, minlength=len(whole_kn))
    rows = []
    for off_bkij in answers:
        off_kn = off_bkij[0].flatten(1)
        change_kn = whole_kn - off_kn
        other_n = off_kn.argmax(0) != said_n
        rows.append(
            (
                (change_kn - change_kn.mean(0)).mean(1),
                (whole_kn.softmax(0) - off_kn.softmax(0)).mean(1),
                torch.bincount(said_n[other_n], minlength=len(whole_kn)) / places_k.clamp(min=1),
            )
        )
    logit_rk, probability_rk, changed_rk = (
        torch.stack(rows_k) for rows_k in zip(*rows, strict=True)
    )
    return Contributions(logit_rk, probability_rk, changed_rk, places_k)


def strongest(value_rk: Tensor, most: int) -> list[tuple[int, int, float]]:
    """The largest entries by size: (rank, class, value)."""
    order = value_rk.abs().flatten().argsort(descending=True)[:most].tolist()
    pairs = [divmod(place, value_rk.shape[1]) for place in order]
    return [(rank, number, value_rk[rank, number].item()) for rank, number in pairs]


def likeness(first_hw: Tensor, second_hw: Tensor) -> float:
    """Correlation of two maps; 0 where one of them is constant."""
    first_n, second_n = (map_hw.flatten().double() for map_hw in (first_hw, second_hw))
    first_n, second_n = first_n - first_n.mean(), second_n - second_n.mean()
    size = first_n.norm() * second_n.norm()
    return (first_n @ second_n / size).item() if size > 0 else 0.0


def extent(map_hw: Tensor) -> tuple[float, float]:
    return map_hw.min().item(), map_hw.max().item()
