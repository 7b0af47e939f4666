"""The result of a check of a dataset: as values, as JSON, as tables of plain text."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, kw_only=True)
class DataProblem:
    """Something wrong with one image, or with a split as a whole."""

    split: str
    name: str
    text: str  # names the file, and the worst values
    values: Mapping[int, int] = field(default_factory=dict)  # label value -> number of pixels


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A label_map for data.options that would make the labels fit the classes."""

    reason: str
    label_map: Mapping[int, int]

    def __str__(self) -> str:
        setting = json.dumps({str(value): label for value, label in self.label_map.items()})
        return f"{self.reason}. Try --set 'data.options.label_map={setting}'."


@dataclass(frozen=True, kw_only=True)
class SplitReport:
    """What a check counted in one split."""

    split: str
    images: int
    official: int | None
    labelled: int  # images with at least one labelled pixel
    broken: int
    void_pixels: int
    pixels_k: tuple[int, ...]
    images_k: tuple[int, ...]


class Listing(NamedTuple):
    """A table of plain text."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """The result of a check of some splits of one dataset."""

    dataset: str
    classes: tuple[str, ...]
    splits: tuple[SplitReport, ...]
    problems: tuple[DataProblem, ...]
    proposals: tuple[Proposal, ...]
    absent: Mapping[str, str] = field(default_factory=dict)  # a split that is not there -> why

    @property
    def ok(self) -> bool:
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"ok": self.ok, **asdict(self)}

    def listings(self) -> list[Listing]:
        """Return the report as tables: splits, classes, and problems if there are any."""
        tables = [self._split_listing(), self._class_listing()]
        rows = [(problem.split, problem.name, problem.text) for problem in self.problems]
        if rows:
            tables.append(Listing("Problems", ("split", "image", "problem"), rows))
        return tables

    def _split_listing(self) -> Listing:
        columns = ("split", "images", "official", "labelled", "broken", "void")
        rows = [
            (
                one.split,
                f"{one.images:,}",
                "-" if one.official is None else f"{one.official:,}",
                f"{one.labelled:,}",
                f"{one.broken:,}",
                _percent(one.void_pixels, one.void_pixels + sum(one.pixels_k)),
            )
            for one in self.splits
        ]
        return Listing(self.dataset, columns, rows)

    def _class_listing(self) -> Listing:
        columns = ["class"]
        for one in self.splits:
            columns += [f"{one.split}: images", "pixels"]
        rows = []
        for index, name in enumerate(self.classes):
            row = [f"{index} {name}"]
            for one in self.splits:
                share = _percent(one.pixels_k[index], sum(one.pixels_k))
                row += [f"{one.images_k[index]:,}", share]
            rows.append(tuple(row))
        return Listing("Classes", tuple(columns), rows)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"
