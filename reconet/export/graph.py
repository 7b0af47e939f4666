"""Trace a network as one graph: uint8 images in, uint8 labels out, any batch and any size.

Normalisation, the resizing of the logits and the argmax are inside the graph. So users of an
export cannot do them differently from the training.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.overrides import TorchFunctionMode

from reconet.errors import ExportError, first_line
from reconet.inference.backends import ExportInfo
from reconet.models.fold import fold_batchnorm
from reconet.models.layers import resize
from reconet.models.segmenter import Segmenter
from reconet.models.trained import TrainedNetwork


class ExportedGraph(nn.Module):
    """image_bchw, RGB uint8 -> labels_bhw, uint8, and logits_bkij as coarse as the features."""

    def __init__(self, model: Segmenter) -> None:
        super().__init__()
        self.model = fold_batchnorm(model).requires_grad_(False).cpu()

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        logits_bkij = self.model.coarse(image)
        logits_bkhw = resize(logits_bkij, (image.shape[2], image.shape[3]))
        return logits_bkhw.argmax(1).to(torch.uint8), logits_bkij


def smallest_side(output_stride: int) -> int:
    """Return the shortest side of an image that the graph takes.

    Every feature map has at least two cells a side, also one of twice the stride. torch.export
    treats maps with one cell as a special case.
    """
    return 2 * output_stride + 1


def trace(model: Segmenter) -> ExportedProgram:
    """Build the graph for any number of images of any size."""
    reason = model.backbone.not_exported
    if reason:
        raise ExportError(f"the backbone {model.backbone.name} cannot be exported: {reason}.")
    output_stride = model.output_stride
    least = smallest_side(output_stride)
    # Not square, and at no size that a network is likely to be trained at.
    example = torch.zeros(2, 3, 9 * output_stride, 11 * output_stride, dtype=torch.uint8)
    dynamic = {
        0: Dim("batch", min=1),
        2: Dim("height", min=least),
        3: Dim("width", min=least),
    }
    try:
        with ExportablePooling(), torch.no_grad():
            return torch.export.export(
                ExportedGraph(model).eval(), (example,), dynamic_shapes=(dynamic,)
            )
    except (RuntimeError, ValueError, TypeError) as error:
        reason = first_line(error)
        raise ExportError(f"torch.export cannot trace this network: {reason}") from error


class ExportablePooling(TorchFunctionMode):
    """A mode in which adaptive pooling becomes two matrix products.

    Exporters silently unroll adaptive pooling for the size of the example. At other sizes their
    graph is wrong.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.adaptive_avg_pool2d:
            return adaptive_average(*args, **kwargs)
        return func(*args, **kwargs)


def adaptive_average(input: Tensor, output_size: int | tuple[int, int]) -> Tensor:
    """Compute F.adaptive_avg_pool2d as matrix products, for a map whose size may be symbolic."""
    rows, columns = output_size if isinstance(output_size, tuple) else (output_size, output_size)
    if rows == columns == 1:
        return input.mean(dim=(2, 3), keepdim=True)
    row_ih = _averaging_matrix(input.shape[2], rows, input)
    column_wj = _averaging_matrix(input.shape[3], columns, input).transpose(0, 1)
    return row_ih @ (input @ column_wj)


def _averaging_matrix(length: int, count: int, like: Tensor) -> Tensor:
    """Return mean_kn: row k averages the cells from floor(k n / K) to ceil((k + 1) n / K)."""
    bin_k1 = torch.arange(count, device=like.device).unsqueeze(1)
    cell_n = torch.arange(length, device=like.device)
    first_k1 = torch.div(bin_k1 * length, count, rounding_mode="floor")
    last_k1 = torch.div((bin_k1 + 1) * length + (count - 1), count, rounding_mode="floor")
    inside_kn = ((cell_n >= first_k1) & (cell_n < last_k1)).to(like.dtype)
    return inside_kn / (last_k1 - first_k1).to(like.dtype)


def export_info(trained: TrainedNetwork) -> ExportInfo:
    """Describe an fp32 export of a network, for the metadata of its file."""
    return ExportInfo(
        network=trained.info,
        precision="fp32",
        smallest=smallest_side(trained.model.output_stride),
    )
