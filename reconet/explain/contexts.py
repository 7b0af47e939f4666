"""Explain a context in one image: its ranks, or the attention that it shows.

Of each rank: what it is, where it looks, and what it says.

T is the tensor of the context: the attention A of reconet, the reconstructed context Y of
reconet_plus. The size of a rank is that of its part of T, the product of channels and a plane:
|T_i| = |lambda_i| |c_i| |p_i| (Frobenius).

Dimensions: r rank, k classes, h rows, w columns, n anything.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from reconet.errors import RecipeError
from reconet.explain import draw
from reconet.explain.draw import Content, Panel, value_range
from reconet.models.context import CONTEXTS, ContextModule
from reconet.models.context.base import AttentionMaps, Point, RecordedPass
from reconet.models.context.low_rank import Factors
from reconet.models.decompose import Decomposition, decompose
from reconet.models.liveness import liveness
from reconet.models.segmenter import Segmenter
from reconet.system.readable import counted

DEFAULT_RANKS = 4  # or all, if there are fewer
RANKS_PER_ROW, PANELS_PER_ROW = 4, 6
CHANNELS = 3  # the strongest channels of a rank that are named
STRONGEST = 12  # contributions in the table


class Contributions(NamedTuple):
    """The output of the network minus its output with a rank switched off."""

    logit_rk: Tensor  # mean over places of the class's score, relative to the mean of all classes
    probability_rk: Tensor  # mean over places of the class's probability
    changed_rk: Tensor  # of the places that had the class's label, the part that got another
    places_k: Tensor  # how many places had its label; the map's places, not the image's pixels


def explain_ranks(
    model: Segmenter,
    image_bchw: Tensor,
    panels: Sequence[Panel],
    classes: Sequence[str],
    ranks: str | None,
) -> Content:
    """Look into the ranks. `panels` are the image and its labels, as they stand beside the maps."""
    parts = decompose(model, image_bchw)
    weight_r, words = parts.factors.weight_r, parts.core.words
    chosen = choose_ranks(weight_r, ranks or str(min(DEFAULT_RANKS, len(weight_r))))
    given, alive, norm_r = (
        measure_contributions(parts),
        liveness(parts.factors),
        norms(parts.factors),
    )
    described = [_describe(parts, norm_r, rank) for rank in chosen]
    spread, effective = f"{100 * alive.attention_spread:.1f} %", f"{alive.effective_rank:.2f}"
    rows = [_row(one, given.logit_rk[one["rank"]], classes) for one in described]
    return Content(
        panels=_rank_panels(parts, panels, chosen),
        figures={
            "contributions.png": draw.contributions(given.logit_rk, classes),
            "fragments.png": draw.factors(parts),
        },
        values={
            "rank": len(weight_r),
            "liveness": alive._asdict(),
            "lambda": weight_r.tolist(),
            "norm": norm_r.tolist(),
            "shown": described,
            "contributions": {
                "classes": list(classes),
                "places": given.places_k.tolist(),
                "logit": given.logit_rk.tolist(),
                "probability": given.probability_rk.tolist(),
                "label_changed": given.changed_rk.tolist(),
            },
        },
        shown={
            "words": words,
            "tiles": [
                (len(weight_r), "ranks"),
                (spread, f"spread of the {words.name} around its mean"),
                (effective, f"effective rank of the {words.name}"),
            ],
            "rank_head": list(rows[0]),
            "ranks": [list(row.values()) for row in rows],
            "strongest": _strongest_rows(given, classes),
        },
        finding=f"{words.name} varies by {spread} around its mean, effective rank {effective} "
        f"of {counted(len(weight_r), 'rank')}",
    )


def _describe(parts: Decomposition, norm_r: Tensor, rank: int) -> dict[str, Any]:
    """Return what JSON tells of a rank."""
    strength_c, masks = parts.factors.channel_brc[0, rank], parts.gather_brhw
    return {
        "rank": rank,
        "lambda": parts.factors.weight_r[rank].item(),
        "share_of_norms": (norm_r[rank] / norm_r.sum()).item(),
        "heat_range": value_range(parts.heat(rank)),
        "attention_range": value_range(parts.tensor_heat(rank)),
        "looks_at": None if masks is None else gathered_part(masks)[rank].item(),
        "strongest_channels": strength_c.topk(min(CHANNELS, len(strength_c))).indices.tolist(),
    }


def _row(one: dict[str, Any], logit_k: Tensor, classes: Sequence[str]) -> dict[str, str]:
    """Return what a table tells of a rank."""
    looks = one["looks_at"]
    return {
        "shown": f"rank {one['rank']}",
        "lambda": f"{one['lambda']:.4g}",
        "of the norms": f"{100 * one['share_of_norms']:.2f} %",
        **({} if looks is None else {"of the image": f"{100 * looks:.0f} %"}),
        "for": classes[int(logit_k.argmax())],
        "against": classes[int(logit_k.argmin())],
        "strongest channels": ", ".join(map(str, one["strongest_channels"])),
    }


def _strongest_rows(given: Contributions, classes: Sequence[str]) -> list[tuple[str, ...]]:
    """List the largest changes of a class's score by one rank."""
    rows = list[tuple[str, ...]]()
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


def _rank_panels(
    parts: Decomposition, images: Sequence[Panel], chosen: Sequence[int]
) -> list[list[Panel | None]]:
    """Arrange two rows for every few ranks, with the image at left.

    Above is where the rank looked, or A_i * X if it looks everywhere. Below is A_i or Y_i.
    """
    words = parts.core.words
    mean_x = Panel("X, mean over channels", parts.x_bchw[0].mean(0))
    tensor = Panel(f"{words.symbol}, mean over channels", parts.tensor()[0].mean(0))
    image, *labels = images
    left: list[list[Panel | None]] = [[image, labels[0]], [mean_x, [*labels, tensor][1]]]
    rows: list[list[Panel | None]] = []
    for start in range(0, len(chosen), RANKS_PER_ROW):
        some = chosen[start : start + RANKS_PER_ROW]
        masks = [parts.gathered(one) for one in some]
        upper = [parts.heat(one) if m is None else m for one, m in zip(some, masks, strict=True)]
        above = [Panel(words.above.format(r), m) for r, m in zip(some, upper, strict=True)]
        below = [Panel(words.below.format(rank), parts.tensor_heat(rank)) for rank in some]
        rows += [[*left[0], *above], [*left[1], *below]]
        left = [[None, None], [None, None]]
    return rows


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


def explain_maps(
    model: Segmenter,
    name: str,
    image_bchw: Tensor,
    panels: Sequence[Panel],
    classes: Sequence[str],
    point: Point | None,
) -> Content:
    """Draw the maps of a context, those of one point if it compares positions."""
    at = point or (0.5, 0.5)
    found = attention_maps(model, name, image_bchw, at, classes)
    if point is not None and not found.from_point:
        raise RecipeError(f"--point: {name} does not look from a point.")
    mark = at if found.from_point else None
    every = [panels[0]._replace(mark=mark), *panels[1:]]
    every += [Panel(name, map_hw, mark) for name, map_hw in found.maps]
    ranges = [(name, *value_range(values)) for name, values in (*found.maps, *found.gates)]
    values: dict[str, Any] = {
        "maps": [{"name": name, "least": low, "most": high} for name, low, high in ranges]
    }
    texts = [(name, f"{low:.3g}", f"{high:.3g}") for name, low, high in ranges]
    return Content(
        panels=[every[k : k + PANELS_PER_ROW] for k in range(0, len(every), PANELS_PER_ROW)],
        figures={"gates.png": draw.bars(found.gates)} if found.gates else {},
        values=values | ({"point": list(at)} if found.from_point else {}),
        shown={"about": found.description, "ranges": texts},
        finding="; ".join(f"{name} {low} to {high}" for name, low, high in texts),
    )


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
