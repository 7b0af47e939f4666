"""Contexts that compare positions, asked from one point: where does it look?

Dimensions: b batch, d channels of queries and keys, h rows, w columns, n = h * w positions, m
positions that answer, j regions or heads.
"""

import torch
from torch import Tensor

from reconet.explain.watched import Look, Watched
from reconet.models.context.asymmetric import PyramidAttention, pyramid
from reconet.models.context.ccnet import cross_weights
from reconet.models.context.cfnet import HEADS
from reconet.models.context.non_local import maxima
from reconet.models.context.psanet import PointAttention, spread


def _weights(query_d: Tensor, key_dm: Tensor, scale: float | None = None) -> Tensor:
    """softmax_m(scale * query . key_m), as torch's attention does it."""
    scale = len(query_d) ** -0.5 if scale is None else scale
    return (scale * (query_d @ key_dm)).softmax(0)


def non_local(seen: Watched) -> Look:
    core = seen.context.core
    x_bchw = seen.into(core)
    query_dhw, key_bdhw = core.query(x_bchw)[0], core.key(x_bchw)
    key_dhw = (maxima(key_bdhw) if core.subsample else key_bdhw)[0]
    row, column = seen.place(query_dhw.shape[1:])
    weight_m = _weights(query_dhw[:, row, column], key_dhw.flatten(1), core.attend.scale)
    maps = (("where it looks", weight_m.view(key_dhw.shape[1:])),)
    return Look("Where the marked point looks: its weights sum to 1.", maps, from_point=True)


def danet(seen: Watched) -> Look:
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


def ccnet(seen: Watched) -> Look:
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


def psanet(seen: Watched) -> Look:
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


def cfnet(seen: Watched) -> Look:
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


def asymmetric(seen: Watched) -> Look:
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


def apcnet(seen: Watched) -> Look:
    maps = []
    for branch in seen.context.branches:
        affinity_jhw = branch.affinity(seen.into(branch.affinity))[0].sigmoid()
        row, column = seen.place(affinity_jhw.shape[1:])
        size = (branch.scale, branch.scale)
        maps.append((f"{size[0]} x {size[1]} regions", affinity_jhw[:, row, column].view(size)))
    words = "How much the marked point takes of each pooled region: gates from 0 to 1."
    return Look(words, tuple(maps), from_point=True)
