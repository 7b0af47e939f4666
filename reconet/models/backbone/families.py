"""What is special about single families of transformers' backbones, and some public ones.

A family that is not listed works too, at the strides that it has. To add one, add a line to
FAMILIES. KNOWN has configurations of public backbones, so that they can be built and counted
without the hub. Weights still come from the hub. They are refused if they do not fit.

Dimensions: b batch, n positions of a map, c channels, p windows, q cells of a window.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Resize = Callable[[Tensor, tuple[int, int]], Tensor]
FORBIDDEN = -100.0  # what the library adds to the score of two cells of Swin that are no neighbours


@dataclass(frozen=True, kw_only=True)
class Family:
    """A family of networks, and how it is changed to serve as a backbone here."""

    title: str
    dilate: Callable[[nn.Module, int], None] | None = None  # to an output stride
    adapt: Callable[[nn.Module], None] | None = None  # so that images of any size can be traced


class DensePatches(nn.Conv2d):
    """A convolution of 2 x 2 patches, at every position instead of every second one.

    Each position sees itself and the positions `dilation` to the right and below.
    """

    def forward(self, input: Tensor) -> Tensor:
        reach = self.dilation[0]
        padded = F.pad(input, (0, reach, 0, reach))
        return F.conv2d(padded, self.weight, self.bias, dilation=self.dilation)


def dilate_convnext(net: nn.Module, output_stride: int) -> None:
    """Let late stages dilate instead of shrink, as in a dilated ResNet.

    On the coarse grid such a stage computes what the strided one does.
    """
    stages = next(module for name, module in net.named_modules() if name.endswith("stages"))
    stride, dilation = 4, 1  # of the first stage
    for stage in list(stages.children())[1:]:
        (conv,) = (m for m in stage.modules() if isinstance(m, nn.Conv2d) and m.stride == (2, 2))
        if 2 * stride <= output_stride:
            stride *= 2
        else:
            name = next(name for name, module in stage.named_modules() if module is conv)
            stage.set_submodule(name, _dense(conv, dilation))
            dilation *= 2
        for part in stage.modules():
            if isinstance(part, nn.Conv2d) and part.groups > 1:
                part.dilation, part.padding = (dilation, dilation), (3 * dilation, 3 * dilation)


def _dense(conv: nn.Conv2d, dilation: int) -> DensePatches:
    """Return a convolution with the same parameters."""
    with torch.device("meta"):
        dense = DensePatches(conv.in_channels, conv.out_channels, 2, dilation=dilation)
    dense.weight, dense.bias = conv.weight, conv.bias
    return dense


def always_interpolate(net: nn.Module) -> None:
    """Resize position embeddings for every image, also for those of the size of the pretraining.

    The library asks for the size first. A graph for images of any size cannot. At the same size
    the bicubic resize changes nothing.
    """
    embeddings: Any = net.get_submodule("embeddings")
    resize = partial(F.interpolate, mode="bicubic")
    embeddings.interpolate_pos_encoding = _Interpolation(embeddings, resize)


def always_interpolate_smoothly(net: nn.Module) -> None:
    """Do the same where the library smooths before it shrinks."""
    embeddings: Any = net.get_submodule("embeddings")
    embeddings.interpolate_pos_encoding = _Interpolation(embeddings, smooth_bicubic)


class _Interpolation:
    """Position embeddings of an image: those of the tokens, then those of the patches, resized."""

    def __init__(self, embeddings: Any, resize: Resize) -> None:
        self.embeddings, self.resize = embeddings, resize

    def __call__(self, tokens_bnc: Tensor, height: int, width: int) -> Tensor:
        position_1nc: Tensor = self.embeddings.position_embeddings
        patch_height, patch_width = self.embeddings.patch_embeddings.patch_size
        side, channels = round((position_1nc.shape[1] - 1) ** 0.5), position_1nc.shape[2]
        grid_1cij = position_1nc[:, 1:].reshape(1, side, side, channels).permute(0, 3, 1, 2)
        size = (height // patch_height, width // patch_width)
        resized_1cij = self.resize(grid_1cij.float(), size)
        resized_1nc = resized_1cij.flatten(2).transpose(1, 2).to(position_1nc.dtype)
        return torch.cat([position_1nc[:, :1], resized_1nc], dim=1)


def smooth_bicubic(x_bchw: Tensor, size: tuple[int, int]) -> Tensor:
    """Compute F.interpolate(mode="bicubic", antialias=True) as two matrix products.

    Exporters cannot write the original for a size that is not known.
    """
    row_ih = _cubic_matrix(x_bchw.shape[2], size[0], x_bchw)
    column_wj = _cubic_matrix(x_bchw.shape[3], size[1], x_bchw).transpose(0, 1)
    return row_ih @ (x_bchw @ column_wj)


def _cubic_matrix(length: int, count: int, like: Tensor) -> Tensor:
    """Return weight_kn of Keys' cubic kernel, wider by the factor that the map shrinks by."""
    index_k1 = torch.arange(count, device=like.device, dtype=like.dtype).unsqueeze(1)
    cell_n = torch.arange(length, device=like.device, dtype=like.dtype)
    scale = torch.full_like(index_k1[:1], length) / count
    centre_k1 = (index_k1 + 0.5) * scale
    t_kn = ((cell_n + 0.5 - centre_k1) / scale.clamp(min=1)).abs()
    near_kn = (1.5 * t_kn - 2.5) * t_kn * t_kn + 1
    far_kn = ((2.5 - 0.5 * t_kn) * t_kn - 4) * t_kn + 2
    weight_kn = torch.where(t_kn < 1, near_kn, torch.where(t_kn < 2, far_kn, 0 * t_kn))
    return weight_kn / weight_kn.sum(dim=1, keepdim=True)


def look_up_windows(net: nn.Module) -> None:
    """Replace the layers of Swin and Swin V2 while a graph is exported.

    The library pads a map, rolls it, and cuts it into windows. torch.export does not get through
    that if the size of the map is not known. Here each cell of each window looks up its position in
    the map instead. The library's own code runs everywhere but in an export.
    """
    layers: dict[str, Callable[..., tuple[Any, ...]]] = {
        "SwinLayer": swin_layer,
        "Swinv2Layer": swin_v2_layer,
    }
    for module in net.modules():
        if type(module).__name__ in layers:
            module.forward = _WhileExporting(module, layers[type(module).__name__])


class _WhileExporting:
    """Compute a layer by another function while a graph is exported."""

    def __init__(self, layer: nn.Module, instead: Callable[..., tuple[Any, ...]]) -> None:
        self.layer, self.instead = layer, instead

    def __call__(self, tokens_bnc: Tensor, size: tuple[int, int], *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_exporting():
            return self.instead(self.layer, tokens_bnc, size)
        return type(self.layer).forward(self.layer, tokens_bnc, size, *args, **kwargs)


def swin_layer(layer: Any, x_bnc: Tensor, size: tuple[int, int]) -> tuple[Tensor, None]:
    """Compute a layer of Swin in use: the norms stand before attention and perceptron."""
    x_bnc = x_bnc + attend(layer, layer.layernorm_before(x_bnc), size)
    return x_bnc + layer.mlp(layer.layernorm_after(x_bnc)), None


def swin_v2_layer(layer: Any, x_bnc: Tensor, size: tuple[int, int]) -> tuple[Tensor]:
    """Compute a layer of Swin V2 in use: the norms stand behind attention and perceptron."""
    x_bnc = x_bnc + layer.layernorm_before(attend(layer, x_bnc, size))
    return (x_bnc + layer.layernorm_after(layer.output(layer.intermediate(x_bnc))),)


def attend(layer: Any, x_bnc: Tensor, size: tuple[int, int]) -> Tensor:
    """Let the cells of each window look at each other."""
    height, width = size
    side, shift, batch = layer.window_size, layer.shift_size, x_bnc.shape[0]
    rows, columns = (height + side - 1) // side, (width + side - 1) // side
    window_p = torch.arange(rows * columns, device=x_bnc.device)
    cell_q = torch.arange(side * side, device=x_bnc.device)
    above_p = window_p // columns
    row_pq, row_region_pq = _positions(above_p, cell_q // side, rows, layer)
    left_p = window_p - above_p * columns  # exporters cannot write % of a size
    column_pq, column_region_pq = _positions(left_p, cell_q % side, columns, layer)
    inside_pq = (row_pq < height) & (column_pq < width)
    index_pq = torch.where(inside_pq, row_pq * width + column_pq, height * width)
    windows_pqc = F.pad(x_bnc, (0, 0, 0, 1))[:, index_pq].flatten(0, 1)  # the last one is padding
    mask_pqq = None
    if shift:
        region_pq = row_region_pq * 3 + column_region_pq
        together_pqq = region_pq.unsqueeze(1) == region_pq.unsqueeze(2)
        mask_pqq = torch.where(together_pqq, 0.0, FORBIDDEN).unsqueeze(0)
        mask_pqq = mask_pqq.expand(batch, -1, -1, -1).flatten(0, 1)
    y_pqc = layer.attention(windows_pqc, mask_pqq)[0]
    y_bnc = y_pqc.unflatten(0, (batch, rows * columns)).flatten(1, 2)
    i_h1 = _shifted(height, rows, layer, x_bnc).unsqueeze(1)
    j_w = _shifted(width, columns, layer, x_bnc)
    window_hw = i_h1 // side * columns + j_w // side
    index_hw = window_hw * side**2 + i_h1 % side * side + j_w % side
    back_bnc: Tensor = y_bnc[:, index_hw].flatten(1, 2)
    return back_bnc


def _positions(window_p: Tensor, cell_q: Tensor, count: int, layer: Any) -> tuple[Tensor, Tensor]:
    """Return the position of each cell along one axis of the map, and which of three regions it is.

    Only cells of one region are neighbours in the map: the last window also has cells from the
    other end.
    """
    side, shift, length = layer.window_size, layer.shift_size, count * layer.window_size
    shifted_pq = window_p.unsqueeze(1) * side + cell_q
    region_pq = (shifted_pq >= length - side).long() + (shifted_pq >= length - shift).long()
    position_pq = shifted_pq + shift
    return torch.where(position_pq < length, position_pq, position_pq - length), region_pq


def _shifted(length: int, count: int, layer: Any, like: Tensor) -> Tensor:
    """Return where each position along one axis is after the shift."""
    position_n = torch.arange(length, device=like.device) - layer.shift_size
    return torch.where(position_n < 0, position_n + count * layer.window_size, position_n)


FAMILIES: dict[str, Family] = {
    "convnext": Family(title="ConvNeXt", dilate=dilate_convnext),
    "convnextv2": Family(title="ConvNeXt V2", dilate=dilate_convnext),
    "dinov2": Family(title="DINOv2", adapt=always_interpolate),
    "dinov2_with_registers": Family(
        title="DINOv2 with registers", adapt=always_interpolate_smoothly
    ),
    "dinov3_convnext": Family(title="DINOv3 ConvNeXt", dilate=dilate_convnext),
    "dinov3_vit": Family(title="DINOv3"),
    "swin": Family(title="Swin", adapt=look_up_windows),
    "swinv2": Family(title="Swin V2", adapt=look_up_windows),
}


@dataclass(frozen=True, kw_only=True)
class Known:
    """A public backbone: its family, what differs from the family's defaults, and its licence.

    The licences are those of the hub pages, as far as known. Pages change: read them before you
    share a network.
    """

    family: str
    licence: str = "Apache-2.0"
    config: Mapping[str, int | list[int]] = field(default_factory=dict)


def _convnext(
    depth: int, width: int, family: str = "convnext", licence: str = "Apache-2.0"
) -> Known:
    config = {"depths": [3, 3, depth, 3], "hidden_sizes": [width * 2**i for i in range(4)]}
    return Known(family=family, licence=licence, config=config)


def _swin(depth: int, width: int, window: int, side: int, family: str = "swin") -> Known:
    config: dict[str, int | list[int]] = {
        "embed_dim": width,
        "depths": [2, 2, depth, 2],
        "num_heads": [width // 32 * 2**i for i in range(4)],
        "window_size": window,
        "image_size": side,
    }
    return Known(family=family, config=config)


def _vit(layers: int, width: int, family: str = "dinov2") -> Known:
    heads = width // 64
    config = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads}
    if family == "dinov3_vit":
        more = {"intermediate_size": 4 * width, "num_register_tokens": 4}
        return Known(family=family, licence=DINOV3, config=config | more)
    return Known(family=family, config=config | {"image_size": 518, "patch_size": 14})


DINOV3 = "DINOv3 License"
CC_BY_NC = "CC-BY-NC-4.0"  # as the authors of ConvNeXt V2 state for their weights
REGISTERS = "dinov2_with_registers"
KNOWN: dict[str, Known] = {
    "facebook/convnext-tiny-224": _convnext(9, 96),
    "facebook/convnext-small-224": _convnext(27, 96),
    "facebook/convnext-base-224": _convnext(27, 128),
    "facebook/convnextv2-tiny-1k-224": _convnext(9, 96, "convnextv2", CC_BY_NC),
    "facebook/convnextv2-base-1k-224": _convnext(27, 128, "convnextv2", CC_BY_NC),
    "microsoft/swin-tiny-patch4-window7-224": _swin(6, 96, 7, 224),
    "microsoft/swin-base-patch4-window7-224": _swin(18, 128, 7, 224),
    "microsoft/swinv2-tiny-patch4-window8-256": _swin(6, 96, 8, 256, "swinv2"),
    "facebook/dinov2-small": _vit(12, 384),
    "facebook/dinov2-base": _vit(12, 768),
    "facebook/dinov2-large": _vit(24, 1024),
    "facebook/dinov2-with-registers-small": _vit(12, 384, REGISTERS),
    "facebook/dinov2-with-registers-base": _vit(12, 768, REGISTERS),
    "facebook/dinov3-vits16-pretrain-lvd1689m": _vit(12, 384, "dinov3_vit"),
    "facebook/dinov3-vitb16-pretrain-lvd1689m": _vit(12, 768, "dinov3_vit"),
    "facebook/dinov3-convnext-tiny-pretrain-lvd1689m": _convnext(9, 96, "dinov3_convnext", DINOV3),
}
