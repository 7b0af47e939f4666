"""Make networks faster that are only used: fold batch norms, and convolve with fewer products.

In use a batch norm is a fixed scale and shift of each channel, which the convolution before it can
do by itself: w' = w * s, b' = (b - mean) * s + shift with s = gain / sqrt(variance + eps).

3 x 3 convolutions go by Winograd's F(4 x 4, 3 x 3). A tile of 4 x 4 results takes 36 products for
each pair of channels in place of 144. Tiles overlap: each reads 6 x 6 values. Three small matrices
do the rest (Lavin and Gray, arXiv:1509.09308):

    result = A (G w G' * B v B') A'       w: 3 x 3 weights, v: 6 x 6 values

The 36 products over channels are one batched matrix product. A dilated convolution is the same on
every d-th row and column, so its tiles are read with steps. All is fp32. Results differ from the
direct sum by about 1e-5 of the largest: sums in another order differ by about 1e-6.

Dimensions: b images, h, w places, c and k channels, t tiles, n = 36 values of a tile, m = 16
results of a tile, s = 9 weights.
"""

import math
from collections import Counter
from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from reconet.models.segmenter import Segmenter

LEAST_CHANNELS = 256  # with fewer, to move tiles takes longer than the products that are saved
LEAST_TILES = 32  # with fewer, to read the weights takes longer: there are 4 times as many
MOST_WASTE = 1.3  # results that are computed, over results that are wanted: maps end inside tiles
TILES_AT_ONCE = 128  # bounds the memory: 38 MB, twice, for 2048 channels

_VALUES = (
    (4, 0, -5, 0, 1, 0),
    (0, -4, -4, 1, 1, 0),
    (0, 4, -4, -1, 1, 0),
    (0, -2, -1, 2, 1, 0),
    (0, 2, -1, -2, 1, 0),
    (0, 4, 0, -5, 0, 1),
)
_WEIGHTS = ((6, 0, 0), (-4, -4, -4), (-4, 4, -4), (1, 2, 4), (1, -2, 4), (0, 0, 24))  # of 24
_RESULTS = ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1))
PROBE = (1, 3, 65, 49)  # a small image; not square, so that no map is square by accident


@torch.no_grad()
def fold_batchnorm(model: Segmenter) -> Segmenter:
    """Return a copy in eval mode that computes the same with fewer passes over its maps.

    One forward pass shows which batch norm follows which convolution. If folding changes the
    result, the copy is not folded.
    """
    folded = deepcopy(model).eval()
    weight = folded.mean_c11  # a network of a user may have no parameters
    probe_bchw = torch.linspace(0, 1, 3 * 65 * 49, device=weight.device).view(PROBE)
    probe_bchw = probe_bchw.to(weight.dtype)
    pairs, expected_bkhw = _pairs(folded, probe_bchw)
    for conv, norm in pairs:
        before, after = folded.get_submodule(conv), folded.get_submodule(norm)
        assert isinstance(before, nn.Conv2d)
        assert isinstance(after, nn.BatchNorm2d)
        folded.set_submodule(conv, fuse_conv_bn_eval(before, after))
        folded.set_submodule(norm, nn.Identity())
    tolerance = 1e-3 * expected_bkhw.abs().max().item()
    close = torch.allclose(folded.coarse(probe_bchw), expected_bkhw, rtol=1e-3, atol=tolerance)
    return folded if close else deepcopy(model).eval()


def _pairs(model: Segmenter, probe_bchw: Tensor) -> tuple[list[tuple[str, str]], Tensor]:
    """Find convolutions and the batch norms that take their output, by name.

    Also return the logits of the image that shows it.
    """
    names: dict[nn.Module, str] = {
        module: name
        for name, module in model.named_modules()
        if isinstance(module, nn.Conv2d | nn.BatchNorm2d)
    }
    made: dict[int, str] = {}  # id of a tensor -> the convolution that computed it
    alive: list[Tensor] = []  # the id of a freed tensor may be used again
    pairs: list[tuple[str, str]] = []
    calls: Counter[str] = Counter()

    def record(module: nn.Module, inputs: tuple[Tensor, ...], result: Tensor) -> None:
        calls[names[module]] += 1
        if isinstance(module, nn.Conv2d):
            made[id(result)] = names[module]
            alive.append(result)
        elif id(inputs[0]) in made:
            pairs.append((made[id(inputs[0])], names[module]))

    hooks = [module.register_forward_hook(record) for module in names]
    try:
        logits_bkhw = model.coarse(probe_bchw)
    finally:
        for hook in hooks:
            hook.remove()
    return [pair for pair in pairs if calls[pair[0]] == calls[pair[1]] == 1], logits_bkhw


def _both_axes(matrix: tuple[tuple[int, ...], ...], over: int = 1) -> Tensor:
    """Return the matrix that applies `matrix` to rows and columns of a flattened square."""
    one_axis = torch.tensor(matrix, dtype=torch.float64) / over
    return torch.kron(one_axis, one_axis)


def use_winograd(model: nn.Module) -> None:
    """Replace the convolutions of a model that Winograd's way can compute, if it may pay."""
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.Conv2d) and _can_compute(child):
                setattr(parent, name, WinogradConv(child))


def _can_compute(conv: nn.Conv2d) -> bool:
    square = conv.kernel_size == (3, 3) and conv.stride == (1, 1) and conv.groups == 1
    padded = conv.padding == conv.dilation and conv.padding_mode == "zeros"
    wide = min(conv.in_channels, conv.out_channels) >= LEAST_CHANNELS
    return square and padded and conv.dilation[0] == conv.dilation[1] and wide


class WinogradConv(nn.Module):
    """A convolution that chooses Winograd's way by the size of its map."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.conv = conv
        self.dilation = conv.dilation[0]
        self.weight_nck: Tensor | None = None  # made when it is first needed: it is large

    def forward(self, x_bchw: Tensor) -> Tensor:
        height, width = x_bchw.shape[2:]
        rows, columns = (math.ceil(side / (4 * self.dilation)) for side in (height, width))
        tiles = rows * columns * self.dilation**2
        pays = 16 * tiles <= MOST_WASTE * height * width and len(x_bchw) * tiles >= LEAST_TILES
        # Rounded to bf16 the small matrices would lose most digits.
        exact = x_bchw.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
        if not (pays and exact) or torch.is_grad_enabled():
            result_bkhw: Tensor = self.conv(x_bchw)
            return result_bkhw
        if self.weight_nck is None:
            self.weight_nck = transform_weights(self.conv.weight)
        return convolve(
            x_bchw, self.weight_nck, self.conv.bias, self.dilation, tiles=(rows, columns)
        )


def transform_weights(weight_kcyx: Tensor) -> Tensor:
    """Return G w G' for each pair of channels."""
    weight_sck = weight_kcyx.detach().permute(2, 3, 1, 0).flatten(0, 1)
    matrix_ns = _both_axes(_WEIGHTS, over=24).to(weight_sck)
    return (matrix_ns @ weight_sck.flatten(1)).view(-1, *weight_sck.shape[1:])


def convolve(
    x_bchw: Tensor, weight_nck: Tensor, bias_k: Tensor | None, d: int, *, tiles: tuple[int, int]
) -> Tensor:
    """Convolve a map with transformed weights at dilation `d`, some rows of tiles at a time."""
    b, c, height, width = x_bchw.shape
    rows, columns = tiles
    k = weight_nck.shape[2]
    values_nn, results_mn = _both_axes(_VALUES).to(x_bchw), _both_axes(_RESULTS).to(x_bchw)
    right, below = (4 * columns + 1) * d - width, (4 * rows + 1) * d - height
    x_bhwc = F.pad(x_bchw.permute(0, 2, 3, 1), (0, 0, d, right, d, below)).contiguous()
    y_bhwk = x_bhwc.new_empty(b, 4 * d * rows, 4 * d * columns, k)
    at_once = max(1, TILES_AT_ONCE // (b * d * d * columns))
    for first in range(0, rows, at_once):
        count = min(at_once, rows - first)
        tile_nc = _tiles(x_bhwc[:, 4 * d * first :], d, count, columns)
        product_ntk = torch.bmm((values_nn @ tile_nc).view(len(tile_nc), -1, c), weight_nck)
        y_mtk = results_mn @ product_ntk.flatten(1)
        # rows of a tile, columns of a tile, images, and per axis: phases of the dilation, tiles
        part = y_mtk.view(4, 4, b, d, count, d, columns, k).permute(2, 4, 0, 3, 6, 1, 5, 7)
        place = y_bhwk[:, 4 * d * first : 4 * d * (first + count)]
        place.view(part.shape).copy_(part)
        if bias_k is not None:
            place += bias_k
    y_bkhw = y_bhwk[:, :height, :width].permute(0, 3, 1, 2)
    return y_bkhw.contiguous(memory_format=torch.channels_last)


def _tiles(x_bhwc: Tensor, d: int, rows: int, columns: int) -> Tensor:
    """Return the values of tiles, flattened to (36, tiles x channels)."""
    image, row, column, _ = x_bhwc.stride()
    b, c = len(x_bhwc), x_bhwc.shape[3]
    shape = (6, 6, b, d, rows, d, columns, c)
    steps = (d * row, d * column, image, row, 4 * d * row, column, 4 * d * column, 1)
    # From where this part begins: as_strided counts from the start of the storage.
    return x_bhwc.as_strided(shape, steps, x_bhwc.storage_offset()).reshape(36, -1)
