"""The toolkits whose networks can be converted: their heads, and how they show images to them.

A head is described in the names and options of our contexts.

Those of mmsegmentation are the heads in mmseg/models/decode_heads, with the settings of
configs/_base_/models. Where a head differs from our default, `options` reproduces it. Where its
weights are only arranged otherwise, `adapt` rearranges them.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from reconet.errors import CheckpointError
from reconet.recipes.schema import Data, Eval

State = dict[str, Tensor]
Names = dict[str, str]  # layer in the public file -> layer in our network
Options = Callable[[Mapping[str, Tensor]], dict[str, Any]]
H = "decode_head"
MOST_BRANCHES = 4


@dataclass(frozen=True, kw_only=True)
class Head:
    """A public head: how to recognise it, what its layers are called here, and which options."""

    context: str
    mark: str  # a file with a key that begins like this has this head
    names: Names
    options: Options = field(default=lambda state: {})
    adapt: Callable[[State], None] = field(default=lambda state: None)  # after renaming, in place


def units(names: Mapping[str, str]) -> Names:
    """Name the parts of mmcv's ConvModule, a convolution with norm, which is a Sequential here."""
    return {
        f"{public}.{part}": f"{ours}.{index}"
        for public, ours in names.items()
        for part, index in (("conv", 0), ("bn", 1))
    }


def _separable(public: str, ours: str) -> Names:
    """Name the parts of mmcv's DepthwiseSeparableConvModule."""
    parts = {"depthwise_conv.conv": 0, "depthwise_conv.bn": 1}
    parts |= {"pointwise_conv.conv": 3, "pointwise_conv.bn": 4}
    return {f"{public}.{part}": f"{ours}.{index}" for part, index in parts.items()}


def _mmseg(
    context: str,
    mark: str,
    *,
    unit: Mapping[str, str] = {},
    layer: Mapping[str, str] = {},
    options: Options = lambda state: {},
    adapt: Callable[[State], None] = lambda state: None,
) -> Head:
    """Describe a head of mmsegmentation, by its units and by its other layers.

    Names are those within the head and within our context. {i} stands for 0, 1, ...
    """
    names = {
        f"{H}.{public}".replace("{i}", str(i)): f"context.{ours}".replace("{i}", str(i))
        for public, ours in (units(unit) | dict(layer)).items()
        for i in range(MOST_BRANCHES)
    }
    return Head(context=context, mark=f"{H}.{mark}", names=names, options=options, adapt=adapt)


def _has(state: Iterable[str], beginning: str) -> bool:
    return any(key.startswith(beginning) for key in state)


def _fcn_options(state: Mapping[str, Tensor]) -> dict[str, Any]:
    convs = sum(f"{H}.convs.{i}.conv.weight" in state for i in range(len(state)))
    return {"convs": convs, "concat": _has(state, f"{H}.conv_cat.")}


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
    norm, concat = _has(state, f"{H}.nl_block.conv_out.bn."), _has(state, f"{H}.conv_cat.")
    return {"scaled": True, "norm": norm, "concat": concat}


def _ema_options(state: Mapping[str, Tensor]) -> dict[str, Any]:
    bases = state[f"{H}.ema_module.bases"].shape[-1]
    return {"bases": bases, "concat": _has(state, f"{H}.conv_cat.")}


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
    for layer in {f"context.{ours}" for ours in _ANN_UNITS.values()} - {_SHARED}:
        weight = state.get(f"{layer}.0.weight")
        if weight is not None:
            state[f"{layer}.0.bias"] = weight.new_zeros(weight.shape[0])


_SHARED = "context.core.attention.key"
_ANN_UNITS = {
    "fusion.stages.0.query_project": "fusion.attention.query",
    "fusion.stages.0.key_project": "fusion.attention.key",
    "fusion.bottleneck": "fusion.fuse",
    "bottleneck": "reduce",
    "context.stages.0.query_project": "core.attention.query",
    "context.stages.0.key_project": "core.attention.key",
    "context.bottleneck": "core.fuse",
}
_ASPP = {
    "image_pool.1": "aspp.branches.4.project",
    "aspp_modules.0": "aspp.branches.0",
    "bottleneck": "aspp.project",
}

MMSEG_HEADS = (
    _mmseg(
        "pspnet",
        mark="psp_modules.",
        unit={"psp_modules.{i}.1": "branches.{i}.project", "bottleneck": "fuse"},
    ),
    _mmseg(
        "deeplabv3plus",
        mark="sep_bottleneck.",
        unit=_ASPP | {"c1_bottleneck": "low"},
        layer=_separable("aspp_modules.{i}", "aspp.branches.{i}")
        | _separable("sep_bottleneck.{i}", "decode.{i}"),
        options=_decoder_options,
        adapt=_pool_last,
    ),
    _mmseg(
        "deeplabv3",
        mark="aspp_modules.",
        unit=_ASPP | {"aspp_modules.{i}": "aspp.branches.{i}"},
        options=_aspp_options,
        adapt=_pool_last,
    ),
    _mmseg(
        "psanet",
        mark="attention_p.",
        unit={
            "reduce": "collect.reduce",
            "attention.0": "collect.predict.0",
            "reduce_p": "distribute.reduce",
            "attention_p.0": "distribute.predict.0",
            "proj": "expand",
            "bottleneck": "fuse",
        },
        layer={"attention.1": "collect.predict.1", "attention_p.1": "distribute.predict.1"},
        options=_psa_options,
    ),
    _mmseg(
        "nonlocal",
        mark="nl_block.",
        unit={"convs.0": "reduce", "convs.1": "smooth", "conv_cat": "join"},
        layer={
            "nl_block.theta.conv": "core.query",
            "nl_block.phi.conv": "core.key",
            "nl_block.g.conv": "core.value",
            "nl_block.conv_out.conv": "core.out",
            "nl_block.conv_out.bn": "core.norm",
        },
        options=_non_local_options,
    ),
    _mmseg(
        "encnet",
        mark="enc_module.",
        unit={"bottleneck": "reduce", "enc_module.encoding_project": "core.project"},
        layer={
            "enc_module.encoding.0.codewords": "core.encoding.code_jc",
            "enc_module.encoding.0.scale": "core.encoding.scale_j",
            "enc_module.encoding.1": "core.norm",
            "enc_module.fc.0": "core.gate",
            "se_layer": "core.presence",
        },
        options=lambda state: {"codes": state[f"{H}.enc_module.encoding.0.codewords"].shape[0]},
    ),
    _mmseg(
        "ccnet",
        mark="cca.",
        unit={"convs.0": "reduce", "convs.1": "refine", "conv_cat": "fuse"},
        layer={
            "cca.query_conv": "core.query",
            "cca.key_conv": "core.key",
            "cca.value_conv": "core.value",
            "cca.gamma.scale": "core.gamma",
        },
        options=lambda state: {"leaky": False},
    ),
    _mmseg(
        "danet",
        mark="pam_in_conv.",
        unit={
            "pam_in_conv": "position_reduce",
            "pam_out_conv": "position_refine",
            "cam_in_conv": "channel_reduce",
            "cam_out_conv": "channel_refine",
        },
        layer={
            "pam.query_project": "core.query",
            "pam.key_project": "core.key",
            "pam.value_project": "core.value",
            "pam.gamma.scale": "core.gamma",
            "cam.gamma.scale": "channel.gamma",
            "pam_conv_seg": "classify_position",
            "cam_conv_seg": "classify_channel",
        },
    ),
    _mmseg(
        "apcnet",
        mark="acm_modules.",
        unit={
            "acm_modules.{i}.pooled_redu_conv": "branches.{i}.regions",
            "acm_modules.{i}.input_redu_conv": "branches.{i}.reduce",
            "acm_modules.{i}.global_info": "branches.{i}.whole.project",
            "acm_modules.{i}.residual_conv": "branches.{i}.residual",
            "acm_modules.{i}.fusion_conv": "branches.{i}.fuse",
            "bottleneck": "join",
        },
        layer={"acm_modules.{i}.gla": "branches.{i}.affinity"},
        options=lambda state: {"fusion": _has(state, f"{H}.acm_modules.0.fusion_conv.")},
    ),
    _mmseg(
        "dmnet",
        mark="dcm_modules.",
        unit={
            "dcm_modules.{i}.input_redu_conv": "branches.{i}.reduce",
            "dcm_modules.{i}.fusion_conv": "branches.{i}.fuse",
            "bottleneck": "join",
        },
        layer={
            "dcm_modules.{i}.filter_gen_conv": "branches.{i}.generate",
            "dcm_modules.{i}.norm": "branches.{i}.norm",
        },
        options=lambda state: {"fusion": _has(state, f"{H}.dcm_modules.0.fusion_conv.")},
    ),
    _mmseg(
        "asymmetric",
        mark="fusion.stages.",
        unit=_ANN_UNITS,
        layer={
            "fusion.stages.0.value_project": "fusion.attention.value",
            "fusion.stages.0.out_project": "fusion.attention.restore",
            "context.stages.0.value_project": "core.attention.value",
            "context.stages.0.out_project": "core.attention.restore",
        },
        adapt=_share_projections,
    ),
    _mmseg(
        "emanet",
        mark="ema_in_conv.",
        unit={
            "ema_in_conv": "reduce",
            "ema_out_conv": "core.restore",
            "bottleneck": "refine",
            "conv_cat": "join",
        },
        layer={"ema_mid_conv.conv": "core.project", "ema_module.bases": "core.bases_ck"},
        options=_ema_options,
        adapt=_drop_batch,
    ),
    _mmseg(
        "fcn",
        mark="convs.",
        unit={
            "convs.0": "reduce",
            **{f"convs.{i}": f"refine.{i - 1}" for i in range(1, 8)},
            "conv_cat": "join",
        },
        options=_fcn_options,
    ),
)

TORCHVISION_HEADS = (
    Head(
        context="deeplabv3",
        mark="classifier.0.convs.",
        names={
            **{
                f"classifier.0.convs.{branch}.{layer}": f"context.aspp.branches.{branch}.{layer}"
                for branch in range(4)
                for layer in (0, 1)
            },
            "classifier.0.convs.4.1": "context.aspp.branches.4.project.0",
            "classifier.0.convs.4.2": "context.aspp.branches.4.project.1",
            "classifier.0.project.0": "context.aspp.project.0",
            "classifier.0.project.1": "context.aspp.project.1",
            "classifier.1": "context.last.0.0",
            "classifier.2": "context.last.0.1",
            "classifier.4": "classify",
        },
        options=lambda state: {"last_3x3": True},
    ),
    Head(
        context="fcn",
        mark="classifier.0.weight",
        names={
            "classifier.0": "context.reduce.0",
            "classifier.1": "context.reduce.1",
            "classifier.4": "classify",
        },
    ),
)

SHORT_SIDE = Eval(mode="whole", relative_to="short_side")


@dataclass(frozen=True, kw_only=True)
class Published:
    """How images of a dataset are shown to a network for its published score."""

    base_size: int
    crop: tuple[int, int] = (512, 512)
    eval: Eval = SHORT_SIDE
    train_split: str = "train"

    def __str__(self) -> str:
        size = {
            "short_side": f"a short side of {self.base_size}",
            "base_size": f"a long side of {self.base_size}",
            "original": "their own size",
        }[self.eval.relative_to]
        windows = f"windows of {self.crop[0]} x {self.crop[1]}"
        return f"{'whole images' if self.eval.mode == 'whole' else windows} at {size}"

    def data(self, dataset: str) -> Data:
        """Return the settings of a dataset that this protocol needs."""
        return Data(
            name=dataset, base_size=self.base_size, crop=self.crop, train_split=self.train_split
        )


@dataclass(frozen=True, kw_only=True)
class Toolkit:
    """A toolkit: its heads, and the layers that all of its networks have."""

    title: str
    heads: tuple[Head, ...]
    names: Names  # of the layers around a head
    classifier: str  # the layer whose rows are the classes
    auxiliary: str  # the beginning of the keys of its auxiliary head
    usual: Published  # the protocol for any other dataset
    protocols: Mapping[str, Published] = field(default_factory=dict)  # by dataset

    def published(self, dataset: str) -> Published:
        """Return the protocol by which this toolkit scores its networks on a dataset."""
        return self.protocols.get(dataset, self.usual)


_CONTEXT = Published(base_size=520, crop=(480, 480), eval=Eval(mode="slide"))
# ResNetV1c. Norm and ReLU of the stem's last convolution are bn1 and relu here.
_STEM = {f"backbone.stem.{i}": f"backbone.conv1.{i}" for i in (0, 1, 3, 4, 6)}

TOOLKITS = {
    "mmseg": Toolkit(
        title="mmsegmentation",
        heads=MMSEG_HEADS,
        names={
            **_STEM,
            "backbone.stem.7": "backbone.bn1",
            "decode_head.conv_seg": "classify",
            **units({"auxiliary_head.convs.0": "aux.reduce"}),
            "auxiliary_head.conv_seg": "aux.classify",
        },
        classifier="decode_head.conv_seg",
        auxiliary="auxiliary_head.",
        usual=Published(base_size=512),
        protocols={
            "voc12": Published(base_size=512, train_split="trainaug"),
            "cityscapes": Published(
                base_size=2048,
                crop=(512, 1024),
                eval=Eval(mode="whole", relative_to="original"),
            ),
            "pcontext": _CONTEXT,
            "pcontext59": _CONTEXT,
        },
    ),
    "torchvision": Toolkit(
        title="torchvision",
        heads=TORCHVISION_HEADS,
        names={
            "aux_classifier.0": "aux.reduce.0",
            "aux_classifier.1": "aux.reduce.1",
            "aux_classifier.4": "aux.classify",
        },
        classifier="classifier.4",
        auxiliary="aux_classifier.",
        usual=Published(base_size=520, crop=(480, 480)),
    ),
}
