"""Point-wise spatial attention (PSANet).

Dimensions: b batch, c channels, h rows, w columns, o offsets, p positions that predict, s the
positions that they look at (p and s run over the same map).
"""

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from reconet.models.context.base import AttentionMaps, ContextInfo, ContextModule, RecordedPass
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import conv_bn_relu, resize
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Point-wise attention",
    paper='Zhao et al., "PSANet: Point-wise Spatial Attention Network for Scene Parsing", '
    "ECCV 2018",
    idea="Every position predicts one weight for every offset to another position.",
    options={
        "mask": "offsets along a side, by default all that the training crop needs",
        "toolkit": "pad and resize as one toolkit does, whose weights need it",
        "dropout": "before the classifier",
    },
)

SHRINK = 2  # attention happens on a map of half the size


class PointAttention(nn.Module):
    """One branch, collecting or distributing: c4 -> map of half the size.

    When it collects, a position reads the others by its own weights. When it distributes, the
    others read it by its weights.

    `mask` is the number of offsets along height and width. By default they cover the training crop.
    A smaller map uses the inner ones. On a larger map, offsets beyond them have energy zero and
    still take part in the softmax, as in the authors' code.
    """

    def __init__(
        self,
        channels_in: int,
        channels: int,
        mask: tuple[int, int],
        *,
        collect: bool,
        toolkit: bool = False,
    ) -> None:
        super().__init__()
        self.mask, self.collect, self.toolkit = mask, collect, toolkit
        offsets = mask[0] * mask[1]
        self.reduce = conv_bn_relu(channels_in, channels, 1)
        self.predict = nn.Sequential(
            conv_bn_relu(channels, channels, 1, pooled=True),  # half of a small map may be a cell
            nn.Conv2d(channels, offsets, 1, bias=False),
        )

    def forward(self, c4_bchw: Tensor) -> Tensor:
        x_bchw = self.reduce(c4_bchw)
        if self.toolkit:
            x_bchw = shrink_as_toolkit(x_bchw)
        else:
            x_bchw = resize(x_bchw, (shrunk(x_bchw.shape[2]), shrunk(x_bchw.shape[3])))
        energy_bsp = by_position(self.predict(x_bchw), self.mask)
        if not self.collect:
            energy_bsp = energy_bsp.transpose(1, 2)  # read by those it looks at
        y_bcp = x_bchw.flatten(2) @ energy_bsp.softmax(dim=1)
        return y_bcp.view_as(x_bchw)


def shrunk(length: int) -> int:
    """Halve a length, rounded up. Not by -(-n // 2): ONNX rounds towards zero."""
    return (length + SHRINK - 1) // SHRINK


def shrink_as_toolkit(x_bchw: Tensor) -> Tensor:
    """Halve a map as mmsegmentation does: by corners if both sides are odd, else by centres."""
    height, width = x_bchw.shape[2:]
    odd = _both_odd(height, width)
    half = torch.sym_max(1, (height + odd) // SHRINK), torch.sym_max(1, (width + odd) // SHRINK)
    return _resize_as_toolkit(x_bchw, half, odd)


def _both_odd(height: int, width: int) -> int:
    return (height % SHRINK) * (width % SHRINK)


def _resize_as_toolkit(x_bchw: Tensor, size: tuple[int, int], by_corners: int) -> Tensor:
    # Not by F.interpolate: an export does not know yet which of the two it will be.
    for dim, to in zip((2, 3), size, strict=True):
        length = x_bchw.shape[dim]
        out_n = torch.arange(to, device=x_bchw.device)
        corner_n = out_n * ((length - 1) / torch.sym_max(to - 1, 1))
        centre_n = (out_n + 0.5) * (length / to) - 0.5
        place_n = (by_corners * corner_n + (1 - by_corners) * centre_n).clamp(0, length - 1)
        index_l = torch.arange(length, device=x_bchw.device)
        weight_nl = (1 - (place_n[:, None] - index_l).abs()).clamp(min=0).to(x_bchw.dtype)
        x_bchw = (x_bchw.transpose(dim, -1) @ weight_nl.T).transpose(dim, -1)
    return x_bchw


def by_position(energy_bohw: Tensor, mask: tuple[int, int]) -> Tensor:
    """Return energy_bsp: what position p predicts for its offset to position s.

    It is zero where the offset is not in the mask. The middle of the mask is offset zero. An even
    mask reaches one cell farther down and to the right.
    """
    height, width = energy_bohw.shape[2:]
    middle = [(side - 1) // 2 for side in mask]
    row_sp = _offsets(height, width, energy_bohw.device, rows=True) + middle[0]
    column_sp = _offsets(height, width, energy_bohw.device, rows=False) + middle[1]
    within_sp = (row_sp >= 0) & (row_sp < mask[0]) & (column_sp >= 0) & (column_sp < mask[1])
    index_sp = (row_sp * mask[1] + column_sp).where(within_sp, 0)
    energy_bop = energy_bohw.flatten(2)
    energy_bsp = energy_bop.gather(1, index_sp.expand(energy_bop.shape[0], -1, -1))
    return energy_bsp.where(within_sp, 0)


def _offsets(height: int, width: int, device: torch.device, *, rows: bool) -> Tensor:
    """Count the rows (or columns) between every two positions of a map."""
    index_n = torch.arange(height * width, device=device)
    row_n = index_n // width
    # Not by %: ONNX has no remainder by a number that is unknown at export.
    coordinate_n = row_n if rows else index_n - row_n * width
    return coordinate_n[:, None] - coordinate_n


class PSANet(ContextModule):
    """[c4, collected and distributed c4] -> 3x3 convolution -> dropout. No core: it works on c4."""

    info = INFO

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        mask: tuple[PositiveInt, PositiveInt] | None = None,
        toolkit: bool = False,
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels, inner = stages.c4.channels, stages.c4.channels // 4
        mask = mask or (2 * shrunk(stages.c4.height) - 1, 2 * shrunk(stages.c4.width) - 1)
        self.out_channels, self.toolkit = inner, toolkit
        self.collect = PointAttention(channels, inner, mask, collect=True, toolkit=toolkit)
        self.distribute = PointAttention(channels, inner, mask, collect=False, toolkit=toolkit)
        self.expand = conv_bn_relu(2 * inner, channels, 1, pooled=True)
        self.fuse = conv_bn_relu(2 * channels, inner, 3)
        self.dropout = nn.Dropout2d(dropout)

    def forward(self, features: Features) -> Context:
        c4 = features.c4
        size = (c4.shape[2], c4.shape[3])
        seen_bdhw = torch.cat([self.collect(c4), self.distribute(c4)], dim=1)
        if self.toolkit:  # its 1x1 convolution pads, which enlarges the map by a frame of zeros
            seen_bdhw = self.expand(F.pad(seen_bdhw, (1, 1, 1, 1)))
            seen_bdhw = _resize_as_toolkit(seen_bdhw, size, _both_odd(*size))
        else:
            seen_bdhw = resize(self.expand(seen_bdhw), size)
        return Context(self.dropout(self.fuse(torch.cat([c4, seen_bdhw], dim=1))), {})

    def attention_maps(self, recorded: RecordedPass) -> AttentionMaps:
        maps = []
        for name, branch in (("collect", self.collect), ("distribute", self.distribute)):
            energy_bohw = branch.predict(recorded.input_of(branch.predict))
            size = energy_bohw.shape[2:]
            energy_sp = by_position(energy_bohw, branch.mask)[0]
            weight_sp = (energy_sp if branch.collect else energy_sp.T).softmax(0)
            row, column = recorded.cell_of_point(size)
            maps.append((name, weight_sp[:, row * size[1] + column].view(size)))
        description = (
            "What the marked point collects from others by its own weights, and what others "
            "distribute to it by theirs. Both sum to 1."
        )
        return AttentionMaps(description, tuple(maps), from_point=True)
