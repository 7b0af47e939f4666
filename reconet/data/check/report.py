"""The result of a check: findings, as values, as JSON, as lines and tables of plain text.

A finding is a problem if training or scores would be wrong, else a note.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from reconet.data.widths import Widths
from reconet.system.readable import counted

Level = Literal["problem", "note"]
EXAMPLES = 3  # names that a finding shows
MOST_ROWS = 16  # of the table of values
ABOUT_VALUES = ("label-outside", "label-void", "colours-unread", "colours-unknown")


@dataclass(frozen=True)
class Proposal:
    """Settings that would mend a finding, if a condition holds that only a person knows."""

    condition: str  # as in "if 0 is void"
    options: Mapping[str, object]  # of data.options
    unfinished: bool = False  # the person has to fill in names

    @property
    def settings(self) -> list[str]:
        """Return what --set takes."""
        return [f"data.options.{name}={json.dumps(v)}" for name, v in self.options.items()]

    def lines(self, file: str = "") -> list[str]:
        """Return it as options of a command, or as lines for a file that describes the dataset."""
        if not file:
            quoted = [one.replace("'", "'\\''") for one in self.settings]
            return [f"{self.condition}: " + " ".join(f"--set '{one}'" for one in quoted)]
        quote = '"' if file.lower().endswith(".json") else ""  # a value of JSON is one of YAML too
        entries = [f"  {quote}{name}{quote}: {json.dumps(v)}" for name, v in self.options.items()]
        return [f"{self.condition}, write into {file}:", *entries]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something in a dataset that is wrong, or that a person should look at."""

    kind: str  # docs/data-check.md has a line for each
    text: str
    level: Level = "problem"
    count: int = 1  # images, masks or classes that it concerns
    splits: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()  # names of some of them
    proposals: tuple[Proposal, ...] = ()

    def lines(self, file: str = "") -> list[str]:
        """Return the finding for a person, with its proposals below it.

        `file` is the description of the dataset that the proposals are written into, if there is.
        """
        where = f"{', '.join(self.splits)}: " if self.splits else ""
        more = ", ..." if self.count > len(self.examples) else ""
        such = f" ({', '.join(self.examples)}{more})" if self.examples else ""
        proposed = [f"  {line}" for one in self.proposals for line in one.lines(file)]
        return [f"{where}{self.text}{such}", *proposed]


def name_some(
    kind: str,
    text: str,
    names: Sequence[str],
    splits: Iterable[str] = (),
    *,
    level: Level = "problem",
    proposals: Iterable[Proposal] = (),
) -> list[Finding]:
    """Return a finding about these names, or nothing if there are none."""
    found = Finding(
        kind=kind,
        text=text,
        level=level,
        count=len(names),
        splits=tuple(dict.fromkeys(splits)),
        examples=tuple(names[:EXAMPLES]),
        proposals=tuple(proposals),
    )
    return [found] if names else []


@dataclass(frozen=True, kw_only=True)
class SeenValue:
    """A number or a colour in masks."""

    value: int | tuple[int, int, int]
    means: str  # a class, "void", or "" for nothing
    pixels: int
    share: float
    masks: int


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
    widths_k: tuple[Widths | None, ...]  # of the regions of each class


class Listing(NamedTuple):
    """A table of plain text."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """The result of a check of some splits of one dataset."""

    dataset: str
    title: str = ""  # of the dataset, for people
    classes: tuple[str, ...]
    splits: tuple[SplitReport, ...]
    findings: tuple[Finding, ...]
    seen: tuple[SeenValue, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)  # a split that is not there -> why

    @property
    def problems(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.level == "problem")

    @property
    def notes(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.level == "note")

    @property
    def ok(self) -> bool:
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        values = {"ok": self.ok, **asdict(self)}
        for finding, plain in zip(self.findings, values["findings"], strict=True):
            plain["proposals"] = [
                {"condition": p.condition, "settings": p.settings, "unfinished": p.unfinished}
                for p in finding.proposals
            ]
        return values

    def listings(self) -> list[Listing]:
        """Return the report as tables: splits, classes, and values if they are in question."""
        columns = ("split", "images", "official", "labelled", "broken", "void")
        splits = [
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
        by_split = [name for one in self.splits for name in (f"{one.split}: images", "pixels")]
        classes = []
        for k, name in enumerate(self.classes):
            row = [f"{k} {name}"]
            for one in self.splits:
                row += [f"{one.images_k[k]:,}", _percent(one.pixels_k[k], sum(one.pixels_k))]
            row.append(str(self.splits[0].widths_k[k] or "-"))
            classes.append(tuple(row))
        tables = [
            Listing(self.title or self.dataset, columns, splits),
            Listing("Classes", ("class", *by_split, "width in pixels"), classes),
        ]
        if self.seen and any(finding.kind in ABOUT_VALUES for finding in self.findings):
            rows = [
                (str(one.value), one.means or "?", f"{100 * one.share:.2f} %", f"{one.masks:,}")
                for one in self.seen[:MOST_ROWS]
            ]
            rest = self.seen[MOST_ROWS:]
            share = f"{100 * sum(one.share for one in rest):.2f} %"
            rows += [(f"{len(rest)} others", "", share, "")] if rest else []
            tables.append(Listing("Values in masks", ("value", "means", "pixels", "masks"), rows))
        return tables

    def lines(self, file: str = "") -> list[str]:
        """Return the findings, and a last line that sums them up. See `Finding.lines`."""
        lines = [f"not there: {split}: {reason}" for split, reason in self.absent.items()]
        for finding in sorted(self.findings, key=lambda finding: finding.level == "note"):
            first, *rest = finding.lines(file)
            lines += [f"{finding.level}: {first}", *rest]
        told = [counted(len(self.problems), "problem") if self.problems else "no problems"]
        told += [counted(len(self.notes), "note")] if self.notes else []
        return [*lines, ", ".join(told) if self.findings else "nothing is wrong"]


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"
