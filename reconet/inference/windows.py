"""From an image of any size to the probabilities of its classes: scales, windows, mirror images.

A network sees *windows*: pieces of the image at some scale, each perhaps mirrored. What it says
of a window, at whatever resolution, is read at the centres of the image's own pixels (bilinear,
the convention of the whole package), turned into probabilities there, and averaged: over the
windows that overlap, over both mirror images, over the scales. So every window is resampled once,
and nothing larger than the image is ever made: neither its scaled copies nor their probabilities.

The sums are made band by band of the image's rows, within `Protocol.budget_bytes`. A window that
reaches into the next band is not run again: its logits wait, as far as the budget allows.

Dimensions: h, w pixels of the image, k classes, c colours, b windows at once; y, x
places in a window and i, j in its logits.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from reconet.data.transforms import MEAN_COLOUR
from reconet.inference.protocol import Protocol, Scale, at_scale
from reconet.inference.resampling import read_at, zoomed
from reconet.recipes.schema import Recipe
from reconet.types import Image

# image_bcyx, RGB uint8 -> logits_bkij of any resolution that covers the same ground: a network, a
# folded copy of it, or the runtime of an export.
Forward = Callable[[Tensor], Tensor]

CHUNK_BYTES = 2**21  # probabilities under way: few enough to stay in the cache of a CPU


Window = tuple[int, int, bool]  # top, left, mirrored


def labels(forward: Forward, image_hwc: Tensor, protocol: Protocol, num_classes: int) -> Tensor:
    """The most probable class of every pixel, label_hw, uint8."""
    label_hw = image_hwc.new_empty(image_hwc.shape[:2], dtype=torch.uint8)
    for rows, probability_hkw in bands(forward, image_hwc, protocol, num_classes):
        label_hw[rows], _ = best_class(probability_hkw)
    return label_hw


def best_class(probability_hkw: Tensor) -> tuple[Tensor, Tensor]:
    """Return the most probable class of each pixel, label_hw in uint8, and its probability_hw."""
    size = (probability_hkw.shape[0], probability_hkw.shape[2])
    label_hw = probability_hkw.new_empty(size, dtype=torch.uint8)
    best_hw = probability_hkw.new_empty(size)
    # Few rows at once, because `max` returns indices of 8 bytes. It is several times as fast as
    # `argmax` on a CPU.
    for top in range(0, size[0], 64):
        rows = slice(top, top + 64)
        best_hw[rows], index_hw = probability_hkw[rows].max(1)
        label_hw[rows] = index_hw
    return label_hw, best_hw


def probabilities(
    forward: Forward, image_hwc: Tensor, protocol: Protocol, num_classes: int
) -> Tensor:
    """All of them at once, probability_khw, at the image's size. `bands` needs less memory."""
    parts = [part_hkw for _, part_hkw in bands(forward, image_hwc, protocol, num_classes)]
    return torch.cat(parts).transpose(0, 1)


@torch.no_grad()
def bands(
    forward: Forward,
    image_hwc: Tensor,
    protocol: Protocol,
    num_classes: int,
    readers: "Sequence[Reader] | None" = None,
) -> Iterator[tuple[slice, Tensor]]:
    """Rows of an image with the probabilities of their pixels, probability_hkw, top to bottom.

    `readers` are those of the image by `read_together`, if its windows have been shown already.
    """
    height, width = image_hwc.shape[:2]
    # An eighth of the budget: the caller still holds a band when the next one is begun.
    tall = max(1, protocol.budget_bytes // 8 // (4 * num_classes * width))
    readers = readers or _readers(forward, image_hwc, protocol)
    for top in range(0, height, tall):
        rows = (top, min(height, top + tall))
        sum_hkw = torch.zeros(rows[1] - top, num_classes, width, device=image_hwc.device)
        for reader in readers:
            reader.add(sum_hkw, rows)
        yield slice(*rows), sum_hkw


@torch.no_grad()
def read_together(
    forward: Forward, images: Sequence[Tensor], protocol: Protocol
) -> "list[list[Reader]]":
    """For each of several images of one size the readers for `bands`, whose windows the network
    has seen in common batches. All their logits wait in memory: for images of few windows."""
    everyone = [_readers(forward, image_hwc, protocol) for image_hwc in images]
    for at_one_scale in zip(*everyone, strict=True):
        jobs = [(reader, window) for reader in at_one_scale for window in reader.windows()]
        batch = at_one_scale[0].batch
        for start in range(0, len(jobs), batch):
            some = jobs[start : start + batch]
            image_bcyx = torch.cat([reader.cut([window]) for reader, window in some])
            for (reader, window), logits_kij in zip(some, forward(image_bcyx).float(), strict=True):
                reader.waiting[window] = logits_kij
    return everyone


def windows_seen(size: tuple[int, int], protocol: Protocol) -> int:
    """How many windows of an image a network is shown, mirror images too."""
    views = [at_scale(size, scale, protocol) for scale in protocol.scales]
    return sum(len(view.windows()) for view in views) * (2 if protocol.flip else 1)


def _readers(forward: Forward, image_hwc: Tensor, protocol: Protocol) -> "list[Reader]":
    size = (image_hwc.shape[0], image_hwc.shape[1])
    views = [at_scale(size, scale, protocol) for scale in protocol.scales]
    return [Reader(forward, image_hwc, view, protocol) for view in views]


def whole_image(image_hwc: Image, recipe: Recipe) -> Tensor:
    """The image as the network sees it: image_bchw, once and whole, its long side at base_size.

    An attention belongs to one forward pass, and at this size objects are as large as they were in
    training. (An evaluation by windows sees the same image in pieces, each with an attention of
    its own.)
    """
    protocol = Protocol(mode="whole", base_size=recipe.data.base_size, budget_bytes=2**62)
    rows, columns = at_scale((image_hwc.shape[0], image_hwc.shape[1]), 1.0, protocol)
    image_chw = torch.from_numpy(image_hwc).permute(2, 0, 1)
    size = (rows.scaled, columns.scaled)
    return zoomed(image_chw, size, (0, size[0]), (0, size[1]))[None]


class Reader:
    """Shows one scale of an image to a network, and adds what it says to the sums of a band."""

    def __init__(
        self, forward: Forward, image_hwc: Tensor, view: Scale, protocol: Protocol
    ) -> None:
        self.forward, self.view = forward, view
        self.image_chw = image_hwc.permute(2, 0, 1)
        self.flips = (False, True) if protocol.flip else (False,)
        pixels = view.rows.crop * view.columns.crop
        self.batch = max(1, min(protocol.batch, protocol.most_pixels // pixels))
        self.room = protocol.budget_bytes // 4 // len(protocol.scales)
        self.waiting: dict[Window, Tensor] = {}
        equal = len(protocol.scales) * len(self.flips)
        self.weight_h = view.rows.share().to(image_hwc.device) / equal
        self.weight_w = view.columns.share().to(image_hwc.device)

    def add(self, sum_hkw: Tensor, rows: tuple[int, int]) -> None:
        """Add the probabilities of the image's `rows` by all windows that have some of them."""
        wanted = self.windows(rows)
        here = [window for window in wanted if window in self.waiting]
        for window in here:
            self._add(sum_hkw, rows, window, self.waiting[window])
        new = [window for window in wanted if window not in here]
        for start in range(0, len(new), self.batch):
            some = new[start : start + self.batch]
            for window, logits_kij in zip(some, self.forward(self.cut(some)).float(), strict=True):
                self._add(sum_hkw, rows, window, logits_kij)

    def windows(self, rows: tuple[int, int] | None = None) -> list[Window]:
        """The windows that have some of the image's `rows`, or any of its pixels."""
        begin, end = rows or (0, self.view.rows.length)
        wanted: list[Window] = []
        for top, left in self.view.windows():
            first, last = self.view.rows.span(top)
            left_edge, right_edge = self.view.columns.span(left)
            if max(first, begin) < min(last, end) and left_edge < right_edge:
                wanted += [(top, left, mirrored) for mirrored in self.flips]
        return wanted

    def cut(self, some: Sequence[Window]) -> Tensor:
        """Windows as the network sees them, image_bcyx."""
        size = (self.view.rows.crop, self.view.columns.crop)
        image_bcyx = self.image_chw.new_empty((len(some), 3, *size))
        for number, (top, left, mirrored) in enumerate(some):
            if mirrored and number and some[number - 1][:2] == (top, left):
                image_bcyx[number] = image_bcyx[number - 1].flip(-1)
                continue
            self._cut(image_bcyx[number], top, left)
            if mirrored:
                image_bcyx[number] = image_bcyx[number].flip(-1)
        return image_bcyx

    def _cut(self, out_cyx: Tensor, top: int, left: int) -> None:
        """A window of the scaled image, padded with the mean colour at the right and below."""
        rows, columns = self.view
        down = (top, min(rows.scaled, top + rows.crop))
        across = (left, min(columns.scaled, left + columns.crop))
        cut_cyx = zoomed(self.image_chw, (rows.scaled, columns.scaled), down, across)
        if cut_cyx.shape != out_cyx.shape:
            out_cyx.copy_(out_cyx.new_tensor(MEAN_COLOUR)[:, None, None].expand_as(out_cyx))
        out_cyx[:, : cut_cyx.shape[1], : cut_cyx.shape[2]] = cut_cyx

    def _add(
        self, sum_hkw: Tensor, rows: tuple[int, int], window: Window, logits_kij: Tensor
    ) -> None:
        top, left, mirrored = window
        self._keep(window, logits_kij, later=self.view.rows.span(top)[1] > rows[1])
        (first, last), columns = self.view.rows.span(top), self.view.columns.span(left)
        down = (max(first, rows[0]), min(last, rows[1]))
        height, width = logits_kij.shape[1:]
        row_hi = read_at(self.view.rows.places(top, down, height), height)
        column_wj = read_at(self.view.columns.places(left, columns, width), width)
        add_probabilities(
            sum_hkw[down[0] - rows[0] : down[1] - rows[0], :, slice(*columns)],
            logits_kij,
            row_hi.to(logits_kij.device),
            (column_wj.flip(1) if mirrored else column_wj).to(logits_kij.device),
            self.weight_h[slice(*down)],
            self.weight_w[slice(*columns)],
        )

    def _keep(self, window: Window, logits_kij: Tensor, *, later: bool) -> None:
        """Logits of a window that reaches into the next band wait for it, if there is room."""
        self.waiting.pop(window, None)
        held = sum(4 * other.numel() for other in self.waiting.values())
        if later and held + 4 * logits_kij.numel() <= self.room:
            self.waiting[window] = logits_kij


def add_probabilities(
    sum_hkw: Tensor,
    logits_kij: Tensor,
    row_hi: Tensor,
    column_wj: Tensor,
    weight_h: Tensor,
    weight_w: Tensor,
) -> None:
    """sum += weight * softmax(resampled logits), some rows at a time; resampling is two products,
    laid out so that neither needs a copy."""
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
