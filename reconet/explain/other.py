"""The attention that contexts other than reconet have, as maps and gates to look at.

A network is run once with its parts watched; what went into a part tells its attention, which is
computed again by the part's own layers. Contexts that compare positions are asked from one point:
where does it look? To add one: write a function here, add one line to LOOKS.

Dimensions: b batch, d channels of queries and keys, h rows, w columns, n = h * w, j regions or
heads, k classes, bases or nodes.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from reconet.errors import RecipeError
from reconet.models.context.asymmetric import PyramidAttention, pyramid
from reconet.models.context.ccnet import cross_weights
from reconet.models.context.cfnet import HEADS
from reconet.models.context.non_local import _maxima
from reconet.models.context.psanet import PointAttention, spread
from reconet.models.segmenter import Segmenter

MOST = 9  # maps of a set that are shown
Named = tuple[str, Tensor]
Point = tuple[float, float]  # x, y as parts of width and height


class Look(NamedTuple):
    words: str
    maps: tuple[Named, ...] = ()
    gates: tuple[Named, ...] = ()
    from_point: bool = False


class Watched(NamedTuple):
    """A context, all that went into its parts in one pass, and what to ask."""

    context: Any
    inputs: dict[nn.Module, list[Tensor]]
    point: Point
    classes: Sequence[str]

    def into(self, part: nn.Module, call: int = 0) -> Tensor:
        return self.inputs[part][call]

    def place(self, size: Sequence[int]) -> tuple[int, int]:
        """Row and column of the point in a map of (height, width)."""
        x, y = self.point
        return min(size[0] - 1, int(y * size[0])), min(size[1] - 1, int(x * size[1]))


@torch.no_grad()
def look(
    model: Segmenter, name: str, image_bchw: Tensor, point: Point, classes: Sequence[str]
) -> Look:
    """The attention of one picture, of one point where the context looks from points."""
    if name not in LOOKS:
        able = ", ".join(["reconet", *LOOKS])
        raise RecipeError(f"context {name!r} has no attention to explain; these have: {able}.")
    inputs: dict[nn.Module, list[Tensor]] = {}

    def watch(part: nn.Module, given: tuple[Any, ...]) -> None:
        if given and isinstance(given[0], Tensor):
            inputs.setdefault(part, []).append(given[0])

    hooks = [part.register_forward_pre_hook(watch) for part in model.context.modules()]
    try:
        model.coarse(image_bchw)
    finally:
        for hook in hooks:
            hook.remove()
    return LOOKS[name](Watched(model.context, inputs, point, classes))


def _weights(query_d: Tensor, key_dm: Tensor, scale: float | None = None) -> Tensor:
    """softmax_m(scale * query . key_m), as torch's attention does it."""
    scale = len(query_d) ** -0.5 if scale is None else scale
    return (scale * (query_d @ key_dm)).softmax(0)


def _nonlocal(seen: Watched) -> Look:
    core = seen.context.core
    x_bchw = seen.into(core)
    query_dhw, key_bdhw = core.query(x_bchw)[0], core.key(x_bchw)
    key_dhw = (_maxima(key_bdhw) if core.subsample else key_bdhw)[0]
    row, column = seen.place(query_dhw.shape[1:])
    weight_m = _weights(query_dhw[:, row, column], key_dhw.flatten(1), core.attend.scale)
    maps = (("where it looks", weight_m.view(key_dhw.shape[1:])),)
    return Look("Where the marked point looks: its weights sum to 1.", maps, from_point=True)


def _danet(seen: Watched) -> Look:
    core = seen.context.core
    x_bchw = seen.into(core)
    query_dhw, key_dhw = core.query(x_bchw)[0], core.key(x_bchw)[0]
    row, column = seen.place(query_dhw.shape[1:])
    weight_n = _weights(query_dhw[:, row, column], key_dhw.flatten(1), 1.0)
    maps = (("where it looks", weight_n.view(key_dhw.shape[1:])),)
    words = (
        "Where the marked point looks in the position branch: its weights sum to 1. The branch "
        f"counts with gamma = {core.gamma.item():.3g}, the one of channels with "
        f"{seen.context.channel.gamma.item():.3g}."
    )
    return Look(words, maps, from_point=True)


def _ccnet(seen: Watched) -> Look:
    core, maps = seen.context.core, []
    for call in range(core.recurrence):
        x_bchw = seen.into(core.query, call)
        column_bhwg, row_bhwv = cross_weights(core.query(x_bchw), core.key(x_bchw))
        row, column = seen.place(x_bchw.shape[2:])
        weight_hw = torch.zeros_like(x_bchw[0, 0])
        weight_hw[:, column] += column_bhwg[0, row, column]
        weight_hw[row, :] += row_bhwv[0, row, column]
        maps.append((f"pass {call + 1}", weight_hw))
    words = (
        "Where the marked point looks along its row and column, in each pass: the weights of a "
        f"pass sum to 1. What it sees counts with gamma = {core.gamma.item():.3g}."
    )
    return Look(words, tuple(maps), from_point=True)


def _psanet(seen: Watched) -> Look:
    maps = []
    for name in ("collect", "distribute"):
        branch: PointAttention = getattr(seen.context, name)
        energy_bohw = branch.predict(seen.into(branch.predict))
        size = energy_bohw.shape[2:]
        energy_sp = spread(energy_bohw, branch.reach)[0]
        weight_sp = (energy_sp if branch.collect else energy_sp.T).softmax(0)
        row, column = seen.place(size)
        maps.append((name, weight_sp[:, row * size[1] + column].view(size)))
    words = (
        "What the marked point collects from others by its own weights, and what others distribute "
        "to it by theirs; both sum to 1."
    )
    return Look(words, tuple(maps), from_point=True)


def _cfnet(seen: Watched) -> Look:
    core = seen.context.core
    query_bdhw, key_bdhw = (core.query_key(seen.into(core.query_key, call)) for call in (0, 1))
    row, column = seen.place(query_bdhw.shape[2:])
    weight_jm = torch.ones(HEADS, 1, device=query_bdhw.device)
    if core.mixtures > 1:
        weight_jm = core.mixture_weights(query_bdhw)[0]
    query_jmd = query_bdhw[0, :, row, column].view(HEADS, core.mixtures, -1)
    key_jmdn = key_bdhw[0].flatten(1).unflatten(0, (HEADS, core.mixtures, -1))
    energy_jmn = torch.einsum("jmd,jmdn->jmn", query_jmd, key_jmdn) * core.width**-0.5
    weight_jn = (weight_jm[:, :, None] * energy_jmn.softmax(-1)).sum(1)
    size = key_bdhw.shape[2:]
    maps = [("mean of the heads", weight_jn.mean(0).view(size))]
    maps += [(f"head {number}", one_n.view(size)) for number, one_n in enumerate(weight_jn)]
    words = "Where each head of the marked point looks in the map pooled by two: weights sum to 1."
    return Look(words, tuple(maps), from_point=True)


def _asymmetric(seen: Watched) -> Look:
    part: PyramidAttention = seen.context.core.attention
    query_bdhw = part.query(seen.into(part))
    row, column = seen.place(query_bdhw.shape[2:])
    key_dm = pyramid(query_bdhw, part.scales)[0]  # of the core, queries and keys are the same
    weight_m = _weights(query_bdhw[0, :, row, column], key_dm)
    sizes = [(s, s) if isinstance(s, int) else s for s in part.scales]
    pieces = weight_m.split([height * width for height, width in sizes])
    maps = tuple(
        (f"{size[0]} x {size[1]} cells", piece_n.view(size))
        for size, piece_n in zip(sizes, pieces, strict=True)
    )
    words = "Where the marked point looks among the pooled cells: all weights together sum to 1."
    return Look(words, maps, from_point=True)


def _apcnet(seen: Watched) -> Look:
    maps = []
    for branch in seen.context.branches:
        affinity_jhw = branch.affinity(seen.into(branch.affinity))[0].sigmoid()
        row, column = seen.place(affinity_jhw.shape[1:])
        size = (branch.scale, branch.scale)
        maps.append((f"{size[0]} x {size[1]} regions", affinity_jhw[:, row, column].view(size)))
    words = "How much the marked point takes of each pooled region: gates from 0 to 1."
    return Look(words, tuple(maps), from_point=True)


def _largest(name: str, map_khw: Tensor, size_k: Tensor) -> tuple[Named, ...]:
    """The few maps of a set that are largest by some measure, largest first."""
    order = size_k.argsort(descending=True)[:MOST].tolist()
    return tuple((f"{name} {index}", map_khw[index]) for index in order)


def _a2net(seen: Watched) -> Look:
    core = seen.context.core
    x_bchw = seen.into(core)
    gather_kn = core.gather(x_bchw)[0].flatten(1).softmax(1)
    share_khw = core.distribute(x_bchw)[0].softmax(0)
    gather_khw = gather_kn.view_as(share_khw)
    gathered = _largest("gathers", gather_khw, share_khw.mean((1, 2)))
    words = (
        "Where each descriptor is gathered (a map sums to 1), for those that are given out most: "
        "each position takes its own mixture of all descriptors."
    )
    return Look(words, gathered)


def _emanet(seen: Watched) -> Look:
    core = seen.context.core
    feature_bchw = core.project(seen.into(core))
    _, share_bnk = core.fit(feature_bchw.flatten(2).float())
    share_khw = share_bnk[0].T.unflatten(1, feature_bchw.shape[2:])
    words = "Each position's share in the bases that hold most of the picture; shares sum to 1."
    return Look(words, _largest("base", share_khw, share_khw.mean((1, 2))))


def _latentgnn(seen: Watched) -> Look:
    maps: list[Named] = []
    for number, kernel in enumerate(seen.context.core.kernels):
        sender_bchw = seen.into(kernel)
        send_khw = kernel.send(sender_bchw)[0]
        name = f"kernel {number}, node" if number else "node"
        maps += _largest(name, send_khw, send_khw.sum((1, 2)))
    words = "What positions send to the latent nodes that hear most, before it is normalised."
    return Look(words, tuple(maps))


def _acfnet(seen: Watched) -> Look:
    context = seen.context
    coarse_bkhw = context.classify_coarse(seen.into(context.classify_coarse))
    probability_khw = coarse_bkhw[0].float().softmax(0)
    order = probability_khw.mean((1, 2)).argsort(descending=True)[:MOST].tolist()
    maps = tuple((seen.classes[index], probability_khw[index]) for index in order)
    words = (
        "The coarse probability of each class: it weighs the pixels in the class's centre, and the "
        "centres in each pixel's mixture."
    )
    return Look(words, maps)


def _cbam(seen: Watched) -> Look:
    core = seen.context.core
    x_bchw = seen.into(core)
    channel_bc = core.channel_gate(x_bchw)
    spatial_b1hw = core.spatial_gate(x_bchw * channel_bc[:, :, None, None])
    words = "The gates of positions and of channels, from 0 to 1."
    return Look(words, (("positions", spatial_b1hw[0, 0]),), (("channels", channel_bc[0]),))


def _senet(seen: Watched) -> Look:
    gate_c = seen.context.core.gate(seen.into(seen.context.core))[0]
    return Look(
        "The gates of channels, from 0 to 1; they are the same everywhere.",
        (),
        (("channels", gate_c),),
    )


def _encnet(seen: Watched) -> Look:
    core = seen.context.core
    x_bchw = seen.into(core)
    encoding = core.encoding
    feature_bcn = seen.into(encoding).float()
    share_jn = (encoding.scale_j[:, None] * encoding.square_distance(feature_bcn)[0]).softmax(0)
    share_jhw = share_jn.unflatten(1, x_bchw.shape[2:])
    code_bc = core.encode(x_bchw)
    gates = [("channels", core.gate(code_bc)[0].sigmoid())]
    if core.presence is not None:
        gates.append(("classes that the encoding expects", core.presence(code_bc)[0].sigmoid()))
    words = "Each position's share in the codewords that hold most, and the gates of channels."
    return Look(words, _largest("codeword", share_jhw, share_jhw.mean((1, 2))), tuple(gates))


LOOKS: dict[str, Callable[[Watched], Look]] = {
    "a2net": _a2net,
    "acfnet": _acfnet,
    "apcnet": _apcnet,
    "asymmetric": _asymmetric,
    "cbam": _cbam,
    "ccnet": _ccnet,
    "cfnet": _cfnet,
    "danet": _danet,
    "emanet": _emanet,
    "encnet": _encnet,
    "latentgnn": _latentgnn,
    "nonlocal": _nonlocal,
    "psanet": _psanet,
    "senet": _senet,
}
