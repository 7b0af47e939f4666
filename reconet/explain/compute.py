"""Compute what a network looks at: what each rank is and does, or the attention that others show.

T is the tensor of the context: the attention A of reconet, the reconstructed context Y of
reconet_plus. How much of it a rank carries is the size of its part, the product of channels and a
plane: |T_i| = |lambda_i| |c_i| |p_i| (Frobenius). "n ranks carry 90 %" has three meanings:

    norm      fewest ranks whose |T_i| sum to 90 % of the sum of all
    energy    the same with squares, |T_i|^2, where large ranks count for more
    singular  fewest rank-one terms of the *best* approximation of T, unfolded along its channels,
              that hold 90 % of |T|^2: how many patterns there are at all. The ranks are not
              orthogonal (no factor is negative), so this is often 1 where the others are many.

Dimensions: r rank, k classes, h rows, w columns, n anything.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from reconet.errors import RecipeError
from reconet.models.context import CONTEXTS, ContextModule
from reconet.models.context.attention_maps import AttentionMaps, Point, RecordedPass
from reconet.models.context.low_rank import Factors
from reconet.models.decompose import Decomposition
from reconet.models.liveness import Liveness, liveness, singular_values
from reconet.models.segmenter import Segmenter

SHARES = (0.9, 0.99)
CHANNELS = 3  # the strongest channels of a rank that are named
STRONGEST = 12  # contributions in the table


class Contributions(NamedTuple):
    """The output of the network minus its output with a rank switched off."""

    logit_rk: Tensor  # mean over places of the class's score, relative to the mean of all classes
    probability_rk: Tensor  # mean over places of the class's probability
    changed_rk: Tensor  # of the places that had the class's label, the part that got another
    places_k: Tensor  # how many places had its label; the map's places, not the image's pixels


class RankMaps(NamedTuple):
    """A rank whose maps are drawn."""

    upper_hw: Tensor  # where the rank looked, or what it lets through: the mean of A_i * X
    tensor_hw: Tensor  # mean over channels of A_i or Y_i
    values: dict[str, Any]  # what JSON says of it


@dataclass(frozen=True, kw_only=True, eq=False)
class RankAnalysis:
    """All that is measured of the ranks of one image."""

    parts: Decomposition
    norm_r: Tensor
    singular_r: Tensor
    liveness: Liveness
    contributions: Contributions
    shown: tuple[RankMaps, ...]

    def carried(self) -> dict[str, dict[str, int]]:
        """Count the ranks that carry 90 and 99 % of the tensor, by three measures."""
        squares = {"energy": self.norm_r.square(), "singular": self.singular_r.square()}
        return {
            name: {f"{100 * share:g}": count_to_reach(size_r, share) for share in SHARES}
            for name, size_r in {"norm": self.norm_r, **squares}.items()
        }

    def as_dict(self, classes: tuple[str, ...]) -> dict[str, Any]:
        """Return plain values for JSON. Of the maps only their ranges."""
        given = self.contributions
        return {
            "rank": len(self.norm_r),
            "liveness": self.liveness._asdict(),
            "ranks_that_carry_percent": self.carried(),
            "lambda": self.parts.factors.weight_r.tolist(),
            "norm": self.norm_r.tolist(),
            "singular": self.singular_r.tolist(),
            "shown": [one.values for one in self.shown],
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
    looked_r = None if parts.gather_brhw is None else gathered_part(parts.gather_brhw)

    def maps(rank: int) -> RankMaps:
        heat_hw, tensor_hw, gather_hw = (
            parts.heat(rank),
            parts.tensor_heat(rank),
            parts.gathered(rank),
        )
        values = {
            "rank": rank,
            "lambda": parts.factors.weight_r[rank].item(),
            "share_of_norms": (norm_r[rank] / norm_r.sum()).item(),
            "heat_range": value_range(heat_hw),
            "attention_range": value_range(tensor_hw),
            "likeness_to_x": likeness(heat_hw, mean_x_hw),  # 1: the map is X again
            "looks_at": None if looked_r is None else looked_r[rank].item(),
            "strongest_channels": parts.factors.channel_brc[0, rank]
            .topk(channels)
            .indices.tolist(),
        }
        return RankMaps(heat_hw if gather_hw is None else gather_hw, tensor_hw, values)

    return RankAnalysis(
        parts=parts,
        norm_r=norm_r,
        singular_r=singular_values(parts.factors, "channel")[0],
        liveness=liveness(parts.factors),
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
        lost_k = torch.bincount(label_n[off_kn.argmax(0) != label_n], minlength=len(whole_kn))
        score_k = (change_kn - change_kn.mean(0)).mean(1)
        probability_k = (whole_kn.softmax(0) - off_kn.softmax(0)).mean(1)
        rows.append((score_k, probability_k, lost_k / places_k.clamp(min=1)))
    score_rk, probability_rk, lost_rk = map(torch.stack, zip(*rows, strict=True))
    return Contributions(score_rk, probability_rk, lost_rk, places_k)


def rank_rows(analysis: RankAnalysis, classes: tuple[str, ...]) -> list[dict[str, str]]:
    """Describe the ranks shown: how large they are, where they look, and what they say."""
    rows = []
    for _, _, one in analysis.shown:
        logit_k = analysis.contributions.logit_rk[one["rank"]]
        row = {
            "shown": f"rank {one['rank']}",
            "lambda": f"{one['lambda']:.4g}",
            "of the norms": f"{100 * one['share_of_norms']:.2f} %",
        }
        if one["looks_at"] is not None:
            row["of the image"] = f"{100 * one['looks_at']:.0f} %"
        row["for"] = classes[int(logit_k.argmax())]
        row["against"] = classes[int(logit_k.argmin())]
        row["strongest channels"] = ", ".join(map(str, one["strongest_channels"]))
        rows.append(row)
    return rows


def strongest_rows(analysis: RankAnalysis, classes: tuple[str, ...]) -> list[tuple[str, ...]]:
    """List the largest changes of a class's score by one rank."""
    given, rows = analysis.contributions, list[tuple[str, ...]]()
    for place in given.logit_rk.abs().flatten().argsort(descending=True)[:STRONGEST].tolist():
        rank, number = divmod(place, len(classes))
        places = int(given.places_k[number])
        rows.append(
            (
                f"rank {rank}",
                classes[number],
                f"{given.logit_rk[rank, number]:+.4f}",
                f"{100 * given.probability_rk[rank, number]:+.3f}",
                f"{100 * given.changed_rk[rank, number]:.1f} %" if places else "-",
                f"{places:,}",
            )
        )
    return rows


def likeness(first_hw: Tensor, second_hw: Tensor) -> float:
    """Compute the correlation of two maps; 0 where one of them is constant."""
    first_n, second_n = (map_hw.flatten().cpu().double() for map_hw in (first_hw, second_hw))
    first_n, second_n = first_n - first_n.mean(), second_n - second_n.mean()
    size = first_n.norm() * second_n.norm()
    return (first_n @ second_n / size).item() if size > 0 else 0.0


def value_range(map_hw: Tensor) -> tuple[float, float]:
    return map_hw.min().item(), map_hw.max().item()


@torch.no_grad()
def attention_maps(
    model: Segmenter, name: str, image_bchw: Tensor, point: Point, classes: Sequence[str]
) -> AttentionMaps:
    """Run a network on one image, and return the attention that its context shows."""
    context = model.context
    inputs: dict[nn.Module, list[Tensor]] = {}

    def record(part: nn.Module, given: tuple[Any, ...]) -> None:
        if given and isinstance(given[0], Tensor):
            inputs.setdefault(part, []).append(given[0])

    hooks = [part.register_forward_pre_hook(record) for part in context.modules()]
    try:
        model.coarse(image_bchw)
    finally:
        for hook in hooks:
            hook.remove()
    maps = context.attention_maps(RecordedPass(inputs, point, classes))
    if maps is None:
        able = [key for test in (has_ranks, shows_maps) for key in CONTEXTS if test(CONTEXTS[key])]
        names = ", ".join(able)
        raise RecipeError(f"context {name!r} has no attention to explain; these have: {names}.")
    return maps


def shows_maps(context: type[ContextModule]) -> bool:
    return context.attention_maps is not ContextModule.attention_maps


def has_ranks(context: type[ContextModule]) -> bool:
    return context.low_rank_head is not ContextModule.low_rank_head
