"""What is special about single families of transformers' backbones.

A family that is not listed works too, at the strides that it has. To add one, add a line to
FAMILIES.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reconet.models.backbone.windows import look_up_windows

Resize = Callable[[Tensor, tuple[int, int]], Tensor]


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
            _replace(stage, conv, _dense(conv, dilation))
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


def _replace(parent: nn.Module, old: nn.Module, new: nn.Module) -> None:
    for name, module in parent.named_modules():
        for child_name, child in module.named_children():
            if child is old:
                setattr(parent.get_submodule(name), child_name, new)
                return


def always_interpolate(net: nn.Module) -> None:
    """Resize position embeddings for every image, also for those of the size of the pretraining.

    The library asks for the size first. A graph for images of any size cannot. At the same size
    the bicubic resize changes nothing.
    """
    embeddings: Any = net.get_submodule("embeddings")
    embeddings.interpolate_pos_encoding = _Interpolation(embeddings, _bicubic)


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


def _bicubic(x_bchw: Tensor, size: tuple[int, int]) -> Tensor:
    return F.interpolate(x_bchw, size=size, mode="bicubic")


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
