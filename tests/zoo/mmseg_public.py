"""The heads of mmsegmentation, written out: layers, and forward passes on stages c1..c4."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.zoo.public import C1, C3, C4, HEAD, Net, resize, size_of

H = "decode_head"
MASK = 6  # PSANet's; an even one, as for ADE20K
Maps = list[Tensor]


class PublicHead(NamedTuple):
    """How to make a head's weights for k classes, and how to compute its last map."""

    add: Callable[[Net, int], None]
    run: Callable[[Net, Maps], Tensor]


def add_fcn(net: Net, k: int) -> None:
    net.unit(f"{H}.convs.0", HEAD, C4, 3)
    net.unit(f"{H}.convs.1", HEAD, HEAD, 3)
    net.unit(f"{H}.conv_cat", HEAD, C4 + HEAD, 3)


def run_fcn(net: Net, maps: Maps) -> Tensor:
    y = net.run(net.run(maps[3], f"{H}.convs.0"), f"{H}.convs.1")
    return net.run(torch.cat([maps[3], y], 1), f"{H}.conv_cat")


def add_psp(net: Net, k: int) -> None:
    for i in range(4):
        net.unit(f"{H}.psp_modules.{i}.1", HEAD, C4)
    net.unit(f"{H}.bottleneck", HEAD, C4 + 4 * HEAD, 3)


def run_psp(net: Net, maps: Maps) -> Tensor:
    x = maps[3]
    pooled = [
        resize(net.run(F.adaptive_avg_pool2d(x, bins), f"{H}.psp_modules.{i}.1"), size_of(x))
        for i, bins in enumerate((1, 2, 3, 6))
    ]
    return net.run(torch.cat([x, *pooled], 1), f"{H}.bottleneck")


def add_aspp(net: Net, k: int) -> None:
    net.unit(f"{H}.image_pool.1", HEAD, C4)
    for i, kernel in enumerate((1, 3, 3, 3)):
        net.unit(f"{H}.aspp_modules.{i}", HEAD, C4, kernel)
    net.unit(f"{H}.bottleneck", HEAD, 5 * HEAD, 3)


def run_aspp(net: Net, maps: Maps) -> Tensor:
    x = maps[3]
    y = [resize(net.run(F.adaptive_avg_pool2d(x, 1), f"{H}.image_pool.1"), size_of(x))]
    for i, rate in enumerate((1, 12, 24, 36)):
        y.append(net.run(x, f"{H}.aspp_modules.{i}", dilation=rate))
    return net.run(torch.cat(y, 1), f"{H}.bottleneck")


def add_separable(net: Net, name: str, out: int, in_: int) -> None:
    net.unit(f"{name}.depthwise_conv", in_, 1, 3)
    net.unit(f"{name}.pointwise_conv", out, in_)


def run_separable(net: Net, x: Tensor, name: str, rate: int = 1) -> Tensor:
    return net.run(net.run(x, f"{name}.depthwise_conv", dilation=rate), f"{name}.pointwise_conv")


def add_aspp_plus(net: Net, k: int) -> None:
    net.unit(f"{H}.image_pool.1", HEAD, C4)
    net.unit(f"{H}.aspp_modules.0", HEAD, C4)
    for i in (1, 2, 3):
        add_separable(net, f"{H}.aspp_modules.{i}", HEAD, C4)
    net.unit(f"{H}.bottleneck", HEAD, 5 * HEAD, 3)
    net.unit(f"{H}.c1_bottleneck", 3, C1)
    add_separable(net, f"{H}.sep_bottleneck.0", HEAD, HEAD + 3)
    add_separable(net, f"{H}.sep_bottleneck.1", HEAD, HEAD)


def run_aspp_plus(net: Net, maps: Maps) -> Tensor:
    x = maps[3]
    y = [resize(net.run(F.adaptive_avg_pool2d(x, 1), f"{H}.image_pool.1"), size_of(x))]
    y.append(net.run(x, f"{H}.aspp_modules.0"))
    for i, rate in ((1, 12), (2, 24), (3, 36)):
        y.append(run_separable(net, x, f"{H}.aspp_modules.{i}", rate))
    deep = net.run(torch.cat(y, 1), f"{H}.bottleneck")
    low = net.run(maps[0], f"{H}.c1_bottleneck")
    both = torch.cat([resize(deep, size_of(low)), low], 1)
    both = run_separable(net, both, f"{H}.sep_bottleneck.0")
    return run_separable(net, both, f"{H}.sep_bottleneck.1")


def add_psa(net: Net, k: int) -> None:
    for tail in ("", "_p"):
        net.unit(f"{H}.reduce{tail}", HEAD, C4)
        net.unit(f"{H}.attention{tail}.0", HEAD, HEAD)
        net.conv(f"{H}.attention{tail}.1", MASK**2, HEAD, bias=False)
    net.unit(f"{H}.proj", C4, 2 * HEAD)
    net.unit(f"{H}.bottleneck", HEAD, 2 * C4, 3)


def run_psa(net: Net, maps: Maps) -> Tensor:
    x = maps[3]
    height, width = size_of(x)
    odd = height % 2 == 1 and width % 2 == 1
    small = ((height + 1) // 2, (width + 1) // 2) if odd else (height // 2, width // 2)
    seen = []
    for tail in ("", "_p"):
        y = resize(net.run(x, f"{H}.reduce{tail}"), small, corners=odd)
        mask = net.run_conv(net.run(y, f"{H}.attention{tail}.0"), f"{H}.attention{tail}.1")
        weight = spread_mask(mask, distribute=tail == "_p").softmax(1)
        seen.append((y.flatten(2) @ weight).view_as(y))
    both = F.pad(torch.cat(seen, 1), (1, 1, 1, 1))  # its 1x1 convolution has a padding of 1
    both = resize(net.run(both, f"{H}.proj"), (height, width), corners=odd)
    return net.run(torch.cat([x, both], 1), f"{H}.bottleneck")


def spread_mask(mask: Tensor, *, distribute: bool) -> Tensor:
    """Put mask (i, j) of position (p, q) at its partner, as the published loop does."""
    batch, _, height, width = mask.shape
    half = (MASK - 1) // 2
    result = mask.new_zeros(batch, height * width, height * width)
    for p in range(height):
        for q in range(width):
            for i in range(MASK):
                for j in range(MASK):
                    s, t = p + i - half, q + j - half
                    if 0 <= s < height and 0 <= t < width:
                        here, there = p * width + q, s * width + t
                        row, column = (here, there) if distribute else (there, here)
                        result[:, row, column] = mask[:, i * MASK + j, p, q]
    return result


def add_non_local(net: Net, k: int) -> None:
    add_fcn(net, k)
    for name in ("g", "theta", "phi"):
        net.conv(f"{H}.nl_block.{name}.conv", HEAD // 2, HEAD)
    net.unit(f"{H}.nl_block.conv_out", HEAD, HEAD // 2)


def run_non_local(net: Net, maps: Maps) -> Tensor:
    x = net.run(maps[3], f"{H}.convs.0")
    theta, phi, g = (
        net.run_conv(x, f"{H}.nl_block.{name}.conv").flatten(2) for name in ("theta", "phi", "g")
    )
    weight = (theta.mT @ phi / theta.shape[1] ** 0.5).softmax(-1)
    y = (g @ weight.mT).view(x.shape[0], -1, *size_of(x))
    y = x + net.run(y, f"{H}.nl_block.conv_out", relu=False)
    y = net.run(y, f"{H}.convs.1")
    return net.run(torch.cat([maps[3], y], 1), f"{H}.conv_cat")


def add_enc(net: Net, k: int) -> None:
    net.unit(f"{H}.bottleneck", HEAD, C4, 3)
    net.unit(f"{H}.enc_module.encoding_project", HEAD, HEAD)
    net[f"{H}.enc_module.encoding.0.codewords"] = torch.randn(5, HEAD)
    net[f"{H}.enc_module.encoding.0.scale"] = -torch.rand(5) / HEAD
    net.norm(f"{H}.enc_module.encoding.1", 5)
    for name, out in ((f"{H}.enc_module.fc.0", HEAD), (f"{H}.se_layer", k)):
        net[f"{name}.weight"], net[f"{name}.bias"] = torch.randn(out, HEAD), torch.randn(out)


def run_enc(net: Net, maps: Maps) -> Tensor:
    x = net.run(maps[3], f"{H}.bottleneck")
    feature = net.run(x, f"{H}.enc_module.encoding_project").flatten(2).mT.unsqueeze(2)  # b n 1 c
    codes, scale = (net[f"{H}.enc_module.encoding.0.{name}"] for name in ("codewords", "scale"))
    share = (scale * (feature - codes).square().sum(3)).softmax(2).unsqueeze(3)
    encoded = (share * (feature - codes)).sum(1)
    encoded = net.run_norm(encoded, f"{H}.enc_module.encoding.1").relu().mean(1)
    weight, bias = (net[f"{H}.enc_module.fc.0.{leaf}"] for leaf in ("weight", "bias"))
    gate = F.linear(encoded, weight, bias).sigmoid()[:, :, None, None]
    return (x + x * gate).relu()


def add_cc(net: Net, k: int) -> None:
    add_fcn(net, k)
    for name, out in (("query", HEAD // 8), ("key", HEAD // 8), ("value", HEAD)):
        net.conv(f"{H}.cca.{name}_conv", out, HEAD)
    net[f"{H}.cca.gamma.scale"] = torch.tensor(0.7)


def run_cc(net: Net, maps: Maps) -> Tensor:
    x = net.run(maps[3], f"{H}.convs.0")
    height = x.shape[2]
    for _ in range(2):
        query, key, value = (
            net.run_conv(x, f"{H}.cca.{name}_conv") for name in ("query", "key", "value")
        )
        column = torch.einsum("bchw,bciw->bhwi", query, key)
        for h in range(height):
            column[:, h, :, h] = float("-inf")  # a position counts once, in its row
        row = torch.einsum("bchw,bchj->bhwj", query, key)
        weight = torch.cat([column, row], 3).softmax(3)
        y = torch.einsum("bciw,bhwi->bchw", value, weight[..., :height])
        y = y + torch.einsum("bchj,bhwj->bchw", value, weight[..., height:])
        x = x + net[f"{H}.cca.gamma.scale"] * y
    y = net.run(x, f"{H}.convs.1")
    return net.run(torch.cat([maps[3], y], 1), f"{H}.conv_cat")


def add_da(net: Net, k: int) -> None:
    for branch in ("pam", "cam"):
        net.unit(f"{H}.{branch}_in_conv", HEAD, C4, 3)
        net.unit(f"{H}.{branch}_out_conv", HEAD, HEAD, 3)
        net.conv(f"{H}.{branch}_conv_seg", k, HEAD)
        net[f"{H}.{branch}.gamma.scale"] = torch.tensor(0.5)
    for name, out in (("query", HEAD // 8), ("key", HEAD // 8), ("value", HEAD)):
        net.conv(f"{H}.pam.{name}_project", out, HEAD)


def run_da(net: Net, maps: Maps) -> Tensor:
    x = net.run(maps[3], f"{H}.pam_in_conv")
    query, key, value = (
        net.run_conv(x, f"{H}.pam.{name}_project").flatten(2) for name in ("query", "key", "value")
    )
    y = (value @ (query.mT @ key).softmax(-1).mT).view_as(x)
    position = net.run(x + net[f"{H}.pam.gamma.scale"] * y, f"{H}.pam_out_conv")
    x = net.run(maps[3], f"{H}.cam_in_conv")
    energy = x.flatten(2) @ x.flatten(2).mT
    energy = energy.amax(-1, keepdim=True) - energy
    y = (energy.softmax(-1) @ x.flatten(2)).view_as(x)
    channel = net.run(x + net[f"{H}.cam.gamma.scale"] * y, f"{H}.cam_out_conv")
    return position + channel


def add_apc(net: Net, k: int) -> None:
    for i, scale in enumerate((1, 2, 3, 6)):
        name = f"{H}.acm_modules.{i}"
        net.unit(f"{name}.pooled_redu_conv", HEAD, C4)
        net.unit(f"{name}.input_redu_conv", HEAD, C4)
        for part in ("global_info", "residual_conv", "fusion_conv"):
            net.unit(f"{name}.{part}", HEAD, HEAD)
        net.conv(f"{name}.gla", scale**2, HEAD)
    net.unit(f"{H}.bottleneck", HEAD, C4 + 4 * HEAD, 3)


def run_apc(net: Net, maps: Maps) -> Tensor:
    x, branches = maps[3], [maps[3]]
    for i, scale in enumerate((1, 2, 3, 6)):
        name = f"{H}.acm_modules.{i}"
        regions = net.run(F.adaptive_avg_pool2d(x, scale), f"{name}.pooled_redu_conv").flatten(2)
        y = net.run(x, f"{name}.input_redu_conv")
        whole = resize(net.run(F.adaptive_avg_pool2d(y, 1), f"{name}.global_info"), size_of(x))
        affinity = net.run_conv(y + whole, f"{name}.gla").flatten(2).sigmoid()
        z = net.run((regions @ affinity).view_as(y), f"{name}.residual_conv")
        branches.append(net.run((z + y).relu(), f"{name}.fusion_conv"))
    return net.run(torch.cat(branches, 1), f"{H}.bottleneck")


def add_dm(net: Net, k: int) -> None:
    for i in range(4):
        name = f"{H}.dcm_modules.{i}"
        net.conv(f"{name}.filter_gen_conv", HEAD, C4)
        net.unit(f"{name}.input_redu_conv", HEAD, C4)
        net.norm(f"{name}.norm", HEAD)
    net.unit(f"{H}.bottleneck", HEAD, C4 + 4 * HEAD, 3)


def run_dm(net: Net, maps: Maps) -> Tensor:
    x, branches = maps[3], [maps[3]]
    for i, kernel in enumerate((1, 3, 5, 7)):
        name = f"{H}.dcm_modules.{i}"
        filters = net.run_conv(F.adaptive_avg_pool2d(x, kernel), f"{name}.filter_gen_conv")
        y = net.run(x, f"{name}.input_redu_conv")
        each = [
            F.conv2d(one[None], own[:, None], padding=kernel // 2, groups=HEAD)
            for one, own in zip(y, filters, strict=True)
        ]
        branches.append(net.run_norm(torch.cat(each), f"{name}.norm").relu())
    return net.run(torch.cat(branches, 1), f"{H}.bottleneck")


def add_ann(net: Net, k: int) -> None:
    inner = C4 // 8
    for name, low, high in ((f"{H}.fusion", C3, C4), (f"{H}.context", HEAD, HEAD)):
        net.unit(f"{name}.stages.0.key_project", inner, low)
        net.unit(f"{name}.stages.0.query_project", inner, high)
        net.conv(f"{name}.stages.0.value_project", inner, low)
        net.conv(f"{name}.stages.0.out_project", high, inner)
        net.unit(f"{name}.bottleneck", high, 2 * high)
    shared = f"{H}.context.stages.0.key_project."  # one module under two names
    for key in [key for key in net if key.startswith(shared)]:
        net[key.replace("key_project", "query_project")] = net[key]
    net.unit(f"{H}.bottleneck", HEAD, C4, 3)


def run_ann(net: Net, maps: Maps) -> Tensor:
    y = run_ann_block(net, f"{H}.fusion", maps[2], maps[3], relu=False)
    y = net.run(y, f"{H}.bottleneck")
    return run_ann_block(net, f"{H}.context", y, y, relu=True)


def run_ann_block(net: Net, name: str, low: Tensor, high: Tensor, *, relu: bool) -> Tensor:
    query = net.run(high, f"{name}.stages.0.query_project").flatten(2)
    key = net.run(low, f"{name}.stages.0.key_project")
    value = net.run_conv(low, f"{name}.stages.0.value_project")
    key, value = (
        torch.cat([F.adaptive_avg_pool2d(x, scale).flatten(2) for scale in (1, 3, 6, 8)], 2)
        for x in (key, value)
    )
    weight = (query.mT @ key / query.shape[1] ** 0.5).softmax(-1)
    context = (value @ weight.mT).view(high.shape[0], -1, *size_of(high))
    context = net.run_conv(context, f"{name}.stages.0.out_project")
    return net.run(torch.cat([context, high], 1), f"{name}.bottleneck", relu=relu)


def add_ema(net: Net, k: int) -> None:
    net.unit(f"{H}.ema_in_conv", HEAD, C4, 3)
    net.conv(f"{H}.ema_mid_conv.conv", HEAD, HEAD)
    net[f"{H}.ema_module.bases"] = F.normalize(torch.randn(1, HEAD, 7), dim=1)
    net.unit(f"{H}.ema_out_conv", HEAD, HEAD)
    net.unit(f"{H}.bottleneck", HEAD // 2, HEAD, 3)
    net.unit(f"{H}.conv_cat", HEAD // 2, C4 + HEAD // 2, 3)


def run_ema(net: Net, maps: Maps) -> Tensor:
    x = net.run(maps[3], f"{H}.ema_in_conv")
    feature = net.run_conv(x, f"{H}.ema_mid_conv.conv").flatten(2)
    bases = net[f"{H}.ema_module.bases"].repeat(x.shape[0], 1, 1)
    for _ in range(3):
        share = (feature.mT @ bases).softmax(2)
        bases = F.normalize(feature @ F.normalize(share, dim=1, p=1), dim=1)
    y = (bases @ share.mT).view_as(x).relu()
    y = (x + net.run(y, f"{H}.ema_out_conv", relu=False)).relu()
    y = net.run(y, f"{H}.bottleneck")
    return net.run(torch.cat([maps[3], y], 1), f"{H}.conv_cat")


MMSEG = {
    "fcn": PublicHead(add_fcn, run_fcn),
    "pspnet": PublicHead(add_psp, run_psp),
    "deeplabv3": PublicHead(add_aspp, run_aspp),
    "deeplabv3plus": PublicHead(add_aspp_plus, run_aspp_plus),
    "psanet": PublicHead(add_psa, run_psa),
    "nonlocal": PublicHead(add_non_local, run_non_local),
    "encnet": PublicHead(add_enc, run_enc),
    "ccnet": PublicHead(add_cc, run_cc),
    "danet": PublicHead(add_da, run_da),
    "apcnet": PublicHead(add_apc, run_apc),
    "dmnet": PublicHead(add_dm, run_dm),
    "asymmetric": PublicHead(add_ann, run_ann),
    "emanet": PublicHead(add_ema, run_ema),
}
