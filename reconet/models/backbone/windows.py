"""Write the shifted windows of Swin and Swin V2 so that images of any size can be traced.

The library pads a map, rolls it, and cuts it into windows. torch.export does not get through that
if the size of the map is not known. Here each cell of each window looks up its position in the map
instead. The library's own code runs everywhere but in an export.

Dimensions: b batch, n positions of a map, c channels, p windows, q cells of a window.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FORBIDDEN = -100.0  # what the library adds to the score of two cells that are no neighbours


def look_up_windows(net: nn.Module) -> None:
    """Replace the layers of Swin and Swin V2 while a graph is exported."""
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
