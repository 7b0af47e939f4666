"""Compute the class probabilities of an image of any size, by scales, windows and mirror images.

A network sees *windows*: pieces of the image at some scale, each perhaps mirrored. Its logits of a
window may have any resolution. They are read at the centres of the image's own pixels (bilinear,
the convention of the whole package) and turned into probabilities there. The probabilities are
averaged over the windows that overlap, over both mirror images, and over the scales. So every
window is resampled once, and nothing larger than the image is ever made: neither its scaled copies
nor their probabilities.

The sums are made for one band of rows after another, within `Protocol.budget_bytes`. The logits of
a window that reaches into the next band are kept if the budget allows. Else the window runs again.

Dimensions: h, w pixels of the image, k classes, c colours, b windows at once, y, x places in a
window and i, j in its logits.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from reconet.inference.protocol import (
    Protocol,
    Span,
    WindowGrid,
    linear_weights,
    scale_part,
    window_grid,
)
from reconet.types import MEAN_COLOUR, Image

# image_bcyx, RGB uint8 -> logits_bkij of any resolution that covers the same ground: a network, a
# folded copy of it, or the backend of an export.
Forward = Callable[[Tensor], Tensor]
Window = tuple[int, int, bool]  # top, left, mirrored

CHUNK_BYTES = 2**21  # probabilities computed at once: few enough for the cache of a CPU
ROWS_AT_ONCE = 64  # when the best class is chosen: `max` returns indices of 8 bytes
LEAST = 1e-6  # a probability, before its logarithm is taken


def predict_labels(
    forward: Forward,
    image_hwc: Tensor,
    protocol: Protocol,
    num_classes: int,
    *,
    whole: bool = False,
) -> Tensor:
    """Return the most probable class of every pixel, label_hw in uint8.

    `whole` shows images at once that are too large for the budget.
    """
    label_hw = image_hwc.new_empty(image_hwc.shape[:2], dtype=torch.uint8)
    readers = _make_readers(forward, image_hwc, protocol, most_pixels=2**62) if whole else None
    bands = probability_bands(forward, image_hwc, protocol, num_classes, readers)
    for rows, probability_hkw in bands:
        label_hw[rows], _ = best_class(probability_hkw)
    return label_hw


def predict_probabilities(
    forward: Forward, image_hwc: Tensor, protocol: Protocol, num_classes: int
) -> Tensor:
    """Return probability_khw at the image's size. `probability_bands` needs less memory."""
    bands = probability_bands(forward, image_hwc, protocol, num_classes)
    return torch.cat([part_hkw for _, part_hkw in bands]).transpose(0, 1)


def best_class(probability_hkw: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return the most probable class of each pixel, label_hw in uint8, and its probability_hw.

    The probability is that at a temperature, which changes no label.
    """
    size = (probability_hkw.shape[0], probability_hkw.shape[2])
    label_hw = probability_hkw.new_empty(size, dtype=torch.uint8)
    best_hw = probability_hkw.new_empty(size)
    for top in range(0, size[0], ROWS_AT_ONCE):
        rows = slice(top, top + ROWS_AT_ONCE)
        # On a CPU `max` is several times as fast as `argmax`.
        best_hw[rows], index_hw = probability_hkw[rows].max(1)
        label_hw[rows] = index_hw
        if temperature != 1:
            best_hw[rows] = tempered(probability_hkw[rows], temperature).amax(1)
    return label_hw, best_hw


def tempered(probability_nk: Tensor, temperature: float) -> Tensor:
    """Return probabilities at a temperature: p ** (1 / T), normalised. Classes in dimension 1."""
    return (probability_nk.clamp_min(LEAST).log() / temperature).softmax(1)


@torch.no_grad()
def probability_bands(
    forward: Forward,
    image_hwc: Tensor,
    protocol: Protocol,
    num_classes: int,
    readers: "Sequence[WindowReader] | None" = None,
) -> Iterator[tuple[slice, Tensor]]:
    """Yield rows of an image with the probabilities of their pixels, probability_hkw.

    Bands come from top to bottom. `readers` are those that `run_together` returns for the image,
    if the network has seen its windows already.
    """
    height, width = image_hwc.shape[:2]
    # An eighth of the budget: the caller still holds a band when the next one is begun.
    tall = max(1, protocol.budget_bytes // 8 // (4 * num_classes * width))
    readers = readers or _make_readers(forward, image_hwc, protocol)
    for top in range(0, height, tall):
        rows = (top, min(height, top + tall))
        sum_hkw = torch.zeros(rows[1] - top, num_classes, width, device=image_hwc.device)
        for reader in readers:
            reader.add(sum_hkw, rows)
        yield slice(*rows), sum_hkw


@torch.no_grad()
def run_together(
    forward: Forward, images: Sequence[Tensor], protocol: Protocol
) -> "list[list[WindowReader]]":
    """Run the windows of several images of one size in common batches.

    Returns the readers of each image for `probability_bands`. All logits are kept in memory, so
    this is for images of few windows.
    """
    readers_of_images = [_make_readers(forward, image_hwc, protocol) for image_hwc in images]
    for at_one_scale in zip(*readers_of_images, strict=True):
        jobs = [(reader, window) for reader in at_one_scale for window in reader.windows()]
        batch = at_one_scale[0].batch
        for start in range(0, len(jobs), batch):
            some = jobs[start : start + batch]
            image_bcyx = torch.cat([reader.cut([window]) for reader, window in some])
            for (reader, window), logits_kij in zip(some, forward(image_bcyx).float(), strict=True):
                reader.kept[window] = logits_kij
    return readers_of_images


def count_windows(size: tuple[int, int], protocol: Protocol) -> int:
    """Count the windows of an image that a network is shown, mirrored ones included."""
    grids = [window_grid(size, scale, protocol) for scale in protocol.scales]
    return sum(len(grid.corners()) for grid in grids) * (2 if protocol.flip else 1)


def _make_readers(
    forward: Forward, image_hwc: Tensor, protocol: Protocol, most_pixels: int | None = None
) -> "list[WindowReader]":
    size = (image_hwc.shape[0], image_hwc.shape[1])
    grids = [window_grid(size, scale, protocol, most_pixels) for scale in protocol.scales]
    return [WindowReader(forward, image_hwc, grid, protocol) for grid in grids]


def whole_image(image_hwc: Image, base_size: int) -> Tensor:
    """Return the image as the network sees it whole: image_bchw, its long side at base_size.

    An attention belongs to one forward pass, and at this size objects are as large as they were in
    training. An evaluation by windows would have one attention for each window instead.
    """
    protocol, size = Protocol(mode="whole", base_size=base_size), image_hwc.shape[:2]
    rows, columns = window_grid((size[0], size[1]), 1.0, protocol, most_pixels=2**62)
    image_chw = torch.from_numpy(image_hwc).permute(2, 0, 1)
    size = (rows.scaled, columns.scaled)
    return scale_part(image_chw, size, (0, size[0]), (0, size[1]))[None]


class WindowReader:
    """Shows the windows of one scale of an image to a network, and adds up its probabilities."""

    def __init__(
        self, forward: Forward, image_hwc: Tensor, grid: WindowGrid, protocol: Protocol
    ) -> None:
        self.forward, self.grid = forward, grid
        self.image_chw = image_hwc.permute(2, 0, 1)
        self.flips = (False, True) if protocol.flip else (False,)
        pixels = grid.rows.crop * grid.columns.crop
        self.batch = max(1, min(protocol.batch, protocol.most_pixels // pixels))
        self.most_kept_bytes = protocol.budget_bytes // 4 // len(protocol.scales)
        self.kept: dict[Window, Tensor] = {}  # logits
        equal = len(protocol.scales) * len(self.flips)
        self.weight_h = grid.rows.share().to(image_hwc.device) / equal
        self.weight_w = grid.columns.share().to(image_hwc.device)

    def add(self, sum_hkw: Tensor, rows: Span) -> None:
        """Add the probabilities of the image's `rows`, by all windows that cover some of them."""
        wanted = self.windows(rows)
        kept = [window for window in wanted if window in self.kept]
        for window in kept:
            self._add(sum_hkw, rows, window, self.kept[window])
        new = [window for window in wanted if window not in kept]
        for start in range(0, len(new), self.batch):
            some = new[start : start + self.batch]
            for window, logits_kij in zip(some, self.forward(self.cut(some)).float(), strict=True):
                self._add(sum_hkw, rows, window, logits_kij)

    def windows(self, rows: Span | None = None) -> list[Window]:
        """Return the windows that cover some of the image's `rows`, or any of its pixels."""
        begin, end = rows or (0, self.grid.rows.length)
        wanted: list[Window] = []
        for top, left in self.grid.corners():
            first, last = self.grid.rows.span(top)
            left_edge, right_edge = self.grid.columns.span(left)
            if max(first, begin) < min(last, end) and left_edge < right_edge:
                wanted += [(top, left, mirrored) for mirrored in self.flips]
        return wanted

    def cut(self, some: Sequence[Window]) -> Tensor:
        """Return windows as the network sees them, image_bcyx.

        They are padded with the mean colour at the right and below.
        """
        rows, columns = self.grid
        image_bcyx = self.image_chw.new_empty((len(some), 3, rows.crop, columns.crop))
        for number, (top, left, mirrored) in enumerate(some):
            if mirrored and number and some[number - 1][:2] == (top, left):
                image_bcyx[number] = image_bcyx[number - 1].flip(-1)
                continue
            down = (top, min(rows.scaled, top + rows.crop))
            across = (left, min(columns.scaled, left + columns.crop))
            cut_cyx = scale_part(self.image_chw, (rows.scaled, columns.scaled), down, across)
            out_cyx = image_bcyx[number]
            if cut_cyx.shape != out_cyx.shape:
                out_cyx.copy_(out_cyx.new_tensor(MEAN_COLOUR)[:, None, None].expand_as(out_cyx))
            out_cyx[:, : cut_cyx.shape[1], : cut_cyx.shape[2]] = cut_cyx
            if mirrored:
                image_bcyx[number] = out_cyx.flip(-1)
        return image_bcyx

    def _add(self, sum_hkw: Tensor, rows: Span, window: Window, logits_kij: Tensor) -> None:
        top, left, mirrored = window
        (first, last), columns = self.grid.rows.span(top), self.grid.columns.span(left)
        self.kept.pop(window, None)
        held = sum(4 * other.numel() for other in self.kept.values())
        if last > rows[1] and held + 4 * logits_kij.numel() <= self.most_kept_bytes:
            self.kept[window] = logits_kij  # the next band needs it
        down = (max(first, rows[0]), min(last, rows[1]))
        height, width = logits_kij.shape[1:]
        row_hi = linear_weights(self.grid.rows.places(top, down, height), height)
        column_wj = linear_weights(self.grid.columns.places(left, columns, width), width)
        add_probabilities(
            sum_hkw[down[0] - rows[0] : down[1] - rows[0], :, slice(*columns)],
            logits_kij,
            row_hi.to(logits_kij.device),
            (column_wj.flip(1) if mirrored else column_wj).to(logits_kij.device),
            self.weight_h[slice(*down)],
            self.weight_w[slice(*columns)],
        )


def add_probabilities(
    sum_hkw: Tensor,
    logits_kij: Tensor,
    row_hi: Tensor,
    column_wj: Tensor,
    weight_h: Tensor,
    weight_w: Tensor,
) -> None:
    """Add weight * softmax(resampled logits) to a sum, some rows at a time.

    Resampling is two matrix products, laid out so that neither needs a copy.
    """
    classes, height, width = logits_kij.shape
    logits_in = logits_kij.transpose(0, 1).reshape(height, classes * width)
    column_jw = column_wj.T.contiguous()
    tall = max(1, CHUNK_BYTES // (4 * classes * len(column_wj)))
    for start in range(0, len(row_hi), tall):
        rows = slice(start, start + tall)
        coarse_nj = (row_hi[rows] @ logits_in).view(-1, width)
        fine_hkw = (coarse_nj @ column_jw).view(-1, classes, len(column_wj))
        weight_h1w = (weight_h[rows, None] * weight_w)[:, None]
        sum_hkw[rows].addcmul_(fine_hkw.softmax(1), weight_h1w)
