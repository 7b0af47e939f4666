"""Add up the numbers or colours of many masks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reconet.data.check.facts import MaskFacts
from reconet.data.check.void_borders import VoidBorders, add_up

FEW_MASKS = 0.05
FEW_PIXELS = 0.005


@dataclass(frozen=True, kw_only=True)
class Values:
    """The numbers or colours in a set of masks."""

    pixels: Counter[int]
    masks: Counter[int]  # in how many masks each of them is
    count: int  # of masks
    incomplete: bool  # some masks have more values than could be kept
    borders: Mapping[int, VoidBorders] = field(default_factory=dict)  # where some of them lie

    def share(self, value: int) -> float:
        """Return the part of all pixels that has a value."""
        return self.pixels[value] / max(1, self.pixels.total())

    def is_stray(self, value: int) -> bool:
        """Return whether a value is in hardly any mask, in hardly any pixel."""
        return self.masks[value] <= max(1, FEW_MASKS * self.count) and (
            self.share(value) < FEW_PIXELS
        )

    def looks_like_void(self, value: int) -> bool:
        """Return whether a value looks like void between the classes, in most of the masks."""
        measure = self.borders.get(value)
        return (
            measure is not None and measure.look_like_void and 2 * self.masks[value] >= self.count
        )


def collect_values(masks: Sequence[MaskFacts]) -> Values:
    """Add up the values of masks that could be read."""
    pixels: Counter[int] = Counter()
    holders: Counter[int] = Counter()
    for mask in masks:
        pixels.update(mask.values)
        holders.update(mask.values.keys())
    measured = {value for mask in masks for value in mask.borders}
    return Values(
        pixels=pixels,
        masks=holders,
        count=len(masks),
        incomplete=any(mask.other_values for mask in masks),
        borders={
            value: add_up([mask.borders[value] for mask in masks if value in mask.borders])
            for value in sorted(measured)
        },
    )
