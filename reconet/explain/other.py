"""The attention that contexts other than reconet have, as maps and gates to look at.

A network is run once with its parts watched; what went into a part tells its attention, which is
computed again by the part's own layers. Contexts that compare positions are asked from one point:
where does it look (points.py)? To add one: write a function, add one line to LOOKS.

Dimensions: b batch, c channels, h rows, w columns, n = h * w, j codewords, k classes, bases or
nodes.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from reconet.errors import RecipeError
from reconet.explain import points
from reconet.explain.watched import Look, Named, Point, Watched
from reconet.models.segmenter import Segmenter

MOST = 9  # maps of a set that are shown


@torch.no_grad()
def look(
    model: Segmenter, name: str, image_bchw: Tensor, point: Point, classes: Sequence[str]
) -> Look:
    """The attention of one image, of one point where the context looks from points."""
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
    words = "Each position's share in the bases that hold most of the image; shares sum to 1."
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
    "apcnet": points.apcnet,
    "asymmetric": points.asymmetric,
    "cbam": _cbam,
    "ccnet": points.ccnet,
    "cfnet": points.cfnet,
    "danet": points.danet,
    "emanet": _emanet,
    "encnet": _encnet,
    "latentgnn": _latentgnn,
    "nonlocal": points.non_local,
    "psanet": points.psanet,
    "senet": _senet,
}
