"""The heads of mmsegmentation's networks.

Each is the head of its file in mmseg/models/decode_heads, with the settings of
configs/_base_/models. Where it differs from our default, `options` reproduces it. Where its weights
are only arranged otherwise, `adapt` rearranges them.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from reconet.errors import CheckpointError
from reconet.zoo.head import Head, Names, State, has, numbered, units

H = "decode_head"
AUXILIARY = {
    **units({"auxiliary_head.convs.0": "aux.reduce"}),
    "auxiliary_head.conv_seg": "aux.classify",
}


def _fcn_options(state: Mapping[str, Tensor]) -> dict[str, Any]:
    convs = sum(f"{H}.convs.{i}.conv.weight" in state for i in range(len(state)))
    return {"convs": convs, "concat": has(state, f"{H}.conv_cat.")}


def _aspp_options(state: Mapping[str, Tensor]) -> dict[str, Any]:
    weight_oikl = state[f"{H}.bottleneck.conv.weight"]
    return {"channels": weight_oikl.shape[0], "project_3x3": weight_oikl.shape[-1] == 3}


def _decoder_options(state: Mapping[str, Tensor]) -> dict[str, Any]:
    low = state[f"{H}.c1_bottleneck.conv.weight"].shape[0]
    return {**_aspp_options(state), "low_channels": low, "separable": True}


def _pool_last(state: State) -> None:
    """Move the pooled branch to the end of what joins the branches. There it is the first."""
    key = "context.aspp.project.0.weight"
    weight_oikl = state[key]
    pooled = weight_oikl.shape[0]
    state[key] = torch.cat([weight_oikl[:, pooled:], weight_oikl[:, :pooled]], dim=1)


def _psa_options(state: Mapping[str, Tensor]) -> dict[str, Any]:
    offsets = state[f"{H}.attention.1.weight"].shape[0]
    side = math.isqrt(offsets)
    if side**2 != offsets:
        raise CheckpointError(f"its PSA mask of {offsets} offsets is not square, as it must be.")
    return {"mask": [side, side], "toolkit": True}


def _non_local_options(state: Mapping[str, Tensor]) -> dict[str, Any]:
    norm, concat = has(state, f"{H}.nl_block.conv_out.bn."), has(state, f"{H}.conv_cat.")
    return {"scaled": True, "norm": norm, "concat": concat}


def _ema_options(state: Mapping[str, Tensor]) -> dict[str, Any]:
    bases = state[f"{H}.ema_module.bases"].shape[-1]
    return {"bases": bases, "concat": has(state, f"{H}.conv_cat.")}


def _drop_batch(state: State) -> None:
    state["context.core.bases_ck"] = state["context.core.bases_ck"].flatten(0, 1)


def _share_projections(state: State) -> None:
    """Drop the keys of the second block, which are its queries, and add biases of zero.

    As released, convolutions before a norm have a bias. mmsegmentation's have none.
    """
    for key in [key for key in state if key.startswith(f"{_SHARED}.")]:
        twin = state.get(key.replace(".key.", ".query."))
        if twin is not None and torch.equal(state[key], twin):
            del state[key]
    for layer in set(_ANN_UNITS.values()) - {_SHARED}:
        weight = state.get(f"{layer}.0.weight")
        if weight is not None:
            state[f"{layer}.0.bias"] = weight.new_zeros(weight.shape[0])


_SHARED = "context.core.attention.key"
_ANN_UNITS: Names = {
    f"{H}.fusion.stages.0.query_project": "context.fusion.attention.query",
    f"{H}.fusion.stages.0.key_project": "context.fusion.attention.key",
    f"{H}.fusion.bottleneck": "context.fusion.fuse",
    f"{H}.bottleneck": "context.reduce",
    f"{H}.context.stages.0.query_project": "context.core.attention.query",
    f"{H}.context.stages.0.key_project": "context.core.attention.key",
    f"{H}.context.bottleneck": "context.core.fuse",
}

_ASPP = units(
    {
        f"{H}.image_pool.1": "context.aspp.branches.4.project",
        f"{H}.aspp_modules.0": "context.aspp.branches.0",
        f"{H}.bottleneck": "context.aspp.project",
    }
)


def _separable(public: str, ours: str) -> Names:
    return {
        f"{public}.depthwise_conv.conv": f"{ours}.0",
        f"{public}.depthwise_conv.bn": f"{ours}.1",
        f"{public}.pointwise_conv.conv": f"{ours}.3",
        f"{public}.pointwise_conv.bn": f"{ours}.4",
    }


HEADS = (
    Head(
        context="pspnet",
        mark=f"{H}.psp_modules.",
        names={
            **numbered(units({f"{H}.psp_modules.{{i}}.1": "context.branches.{i}.project"}), 4),
            **units({f"{H}.bottleneck": "context.fuse"}),
        },
    ),
    Head(
        context="deeplabv3plus",
        mark=f"{H}.sep_bottleneck.",
        names={
            **_ASPP,
            **numbered(_separable(f"{H}.aspp_modules.{{i}}", "context.aspp.branches.{i}"), 4),
            **numbered(_separable(f"{H}.sep_bottleneck.{{i}}", "context.decode.{i}"), 2),
            **units({f"{H}.c1_bottleneck": "context.low"}),
        },
        options=_decoder_options,
        adapt=_pool_last,
    ),
    Head(
        context="deeplabv3",
        mark=f"{H}.aspp_modules.",
        names={
            **_ASPP,
            **numbered(units({f"{H}.aspp_modules.{{i}}": "context.aspp.branches.{i}"}), 4),
        },
        options=_aspp_options,
        adapt=_pool_last,
    ),
    Head(
        context="psanet",
        mark=f"{H}.attention_p.",
        names={
            **units(
                {
                    f"{H}.reduce": "context.collect.reduce",
                    f"{H}.attention.0": "context.collect.predict.0",
                    f"{H}.reduce_p": "context.distribute.reduce",
                    f"{H}.attention_p.0": "context.distribute.predict.0",
                    f"{H}.proj": "context.expand",
                    f"{H}.bottleneck": "context.fuse",
                }
            ),
            f"{H}.attention.1": "context.collect.predict.1",
            f"{H}.attention_p.1": "context.distribute.predict.1",
        },
        options=_psa_options,
    ),
    Head(
        context="nonlocal",
        mark=f"{H}.nl_block.",
        names={
            **units(
                {
                    f"{H}.convs.0": "context.reduce",
                    f"{H}.convs.1": "context.smooth",
                    f"{H}.conv_cat": "context.join",
                }
            ),
            f"{H}.nl_block.theta.conv": "context.core.query",
            f"{H}.nl_block.phi.conv": "context.core.key",
            f"{H}.nl_block.g.conv": "context.core.value",
            f"{H}.nl_block.conv_out.conv": "context.core.out",
            f"{H}.nl_block.conv_out.bn": "context.core.norm",
        },
        options=_non_local_options,
    ),
    Head(
        context="encnet",
        mark=f"{H}.enc_module.",
        names={
            **units(
                {
                    f"{H}.bottleneck": "context.reduce",
                    f"{H}.enc_module.encoding_project": "context.core.project",
                }
            ),
            f"{H}.enc_module.encoding.0.codewords": "context.core.encoding.code_jc",
            f"{H}.enc_module.encoding.0.scale": "context.core.encoding.scale_j",
            f"{H}.enc_module.encoding.1": "context.core.norm",
            f"{H}.enc_module.fc.0": "context.core.gate",
            f"{H}.se_layer": "context.core.presence",
        },
        options=lambda s: {"codes": s[f"{H}.enc_module.encoding.0.codewords"].shape[0]},
    ),
    Head(
        context="ccnet",
        mark=f"{H}.cca.",
        names={
            **units(
                {
                    f"{H}.convs.0": "context.reduce",
                    f"{H}.convs.1": "context.refine",
                    f"{H}.conv_cat": "context.fuse",
                }
            ),
            f"{H}.cca.query_conv": "context.core.query",
            f"{H}.cca.key_conv": "context.core.key",
            f"{H}.cca.value_conv": "context.core.value",
            f"{H}.cca.gamma.scale": "context.core.gamma",
        },
        options=lambda state: {"leaky": False},
    ),
    Head(
        context="danet",
        mark=f"{H}.pam_in_conv.",
        names={
            **units(
                {
                    f"{H}.pam_in_conv": "context.position_reduce",
                    f"{H}.pam_out_conv": "context.position_refine",
                    f"{H}.cam_in_conv": "context.channel_reduce",
                    f"{H}.cam_out_conv": "context.channel_refine",
                }
            ),
            f"{H}.pam.query_project": "context.core.query",
            f"{H}.pam.key_project": "context.core.key",
            f"{H}.pam.value_project": "context.core.value",
            f"{H}.pam.gamma.scale": "context.core.gamma",
            f"{H}.cam.gamma.scale": "context.channel.gamma",
            f"{H}.pam_conv_seg": "context.classify_position",
            f"{H}.cam_conv_seg": "context.classify_channel",
        },
    ),
    Head(
        context="apcnet",
        mark=f"{H}.acm_modules.",
        names={
            **numbered(
                units(
                    {
                        f"{H}.acm_modules.{{i}}.pooled_redu_conv": "context.branches.{i}.regions",
                        f"{H}.acm_modules.{{i}}.input_redu_conv": "context.branches.{i}.reduce",
                        f"{H}.acm_modules.{{i}}.global_info": "context.branches.{i}.whole.project",
                        f"{H}.acm_modules.{{i}}.residual_conv": "context.branches.{i}.residual",
                        f"{H}.acm_modules.{{i}}.fusion_conv": "context.branches.{i}.fuse",
                    }
                )
                | {f"{H}.acm_modules.{{i}}.gla": "context.branches.{i}.affinity"},
                4,
            ),
            **units({f"{H}.bottleneck": "context.join"}),
        },
        options=lambda state: {"fusion": has(state, f"{H}.acm_modules.0.fusion_conv.")},
    ),
    Head(
        context="dmnet",
        mark=f"{H}.dcm_modules.",
        names={
            **numbered(
                units(
                    {
                        f"{H}.dcm_modules.{{i}}.input_redu_conv": "context.branches.{i}.reduce",
                        f"{H}.dcm_modules.{{i}}.fusion_conv": "context.branches.{i}.fuse",
                    }
                )
                | {
                    f"{H}.dcm_modules.{{i}}.filter_gen_conv": "context.branches.{i}.generate",
                    f"{H}.dcm_modules.{{i}}.norm": "context.branches.{i}.norm",
                },
                4,
            ),
            **units({f"{H}.bottleneck": "context.join"}),
        },
        options=lambda state: {"fusion": has(state, f"{H}.dcm_modules.0.fusion_conv.")},
    ),
    Head(
        context="asymmetric",
        mark=f"{H}.fusion.stages.",
        names={
            **units(_ANN_UNITS),
            f"{H}.fusion.stages.0.value_project": "context.fusion.attention.value",
            f"{H}.fusion.stages.0.out_project": "context.fusion.attention.restore",
            f"{H}.context.stages.0.value_project": "context.core.attention.value",
            f"{H}.context.stages.0.out_project": "context.core.attention.restore",
        },
        adapt=_share_projections,
    ),
    Head(
        context="emanet",
        mark=f"{H}.ema_in_conv.",
        names={
            **units(
                {
                    f"{H}.ema_in_conv": "context.reduce",
                    f"{H}.ema_out_conv": "context.core.restore",
                    f"{H}.bottleneck": "context.refine",
                    f"{H}.conv_cat": "context.join",
                }
            ),
            f"{H}.ema_mid_conv.conv": "context.core.project",
            f"{H}.ema_module.bases": "context.core.bases_ck",
        },
        options=_ema_options,
        adapt=_drop_batch,
    ),
    Head(
        context="fcn",
        mark=f"{H}.convs.",
        names=units(
            {
                f"{H}.convs.0": "context.reduce",
                **{f"{H}.convs.{i}": f"context.refine.{i - 1}" for i in range(1, 8)},
                f"{H}.conv_cat": "context.join",
            }
        ),
        options=_fcn_options,
    ),
)
