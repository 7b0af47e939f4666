"""The result of a check: findings, as values, as JSON, as lines and tables of plain text.

A finding is a problem if training or scores would be wrong, else a note.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from reconet.data.check.facts import SampleFacts

Level = Literal["problem", "note"]
EXAMPLES = 3  # names that a finding shows
MOST_ROWS = 16  # of the table of values


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A setting that would mend a finding, if a condition holds that only a person knows."""

    condition: str  # as in "if 0 is void"
    option: str  # of data.options
    value: object
    unfinished: bool = False  # the person has to fill in names
    also: Mapping[str, object] = field(default_factory=dict)  # other options to set with it

    @property
    def settings(self) -> list[str]:
        """Return what --set takes."""
        return [f"data.options.{name}={text}" for name, text in self._texts()]

    def lines(self, file: str = "") -> list[str]:
        """Return it as options of a command, or as lines for a file that describes the dataset."""
        if not file:
            quoted = [one.replace("'", "'\\''") for one in self.settings]
            options = " ".join(f"--set '{one}'" for one in quoted)
            return [f"{self.condition}: {options}"]
        quote = '"' if file.lower().endswith(".json") else ""
        entries = [f"  {quote}{name}{quote}: {text}" for name, text in self._texts()]
        return [f"{self.condition}, write into {file}:", *entries]

    def _texts(self) -> list[tuple[str, str]]:
        """Return each option with its value as JSON, which is YAML too."""
        return [
            (name, value if self.unfinished and isinstance(value, str) else json.dumps(value))
            for name, value in {self.option: self.value, **self.also}.items()
        ]


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
        names = ", ".join(self.examples[:EXAMPLES])
        more = ", ..." if self.count > len(self.examples[:EXAMPLES]) else ""
        such = f" ({names}{more})" if names else ""
        proposed = [f"  {line}" for one in self.proposals for line in one.lines(file)]
        return [f"{where}{self.text}{such}", *proposed]


def name_some(
    kind: str,
    text: str,
    names: Sequence[str],
    splits: Iterable[str] = (),
    *,
    level: Level = "problem",
    proposals: tuple[Proposal, ...] = (),
) -> list[Finding]:
    """Return a finding about these names, or nothing if there are none."""
    found = Finding(
        kind=kind,
        text=text,
        level=level,
        count=len(names),
        splits=tuple(dict.fromkeys(splits)),
        examples=tuple(names[:EXAMPLES]),
        proposals=proposals,
    )
    return [found] if names else []


def find_about(
    kind: str,
    facts: Sequence[SampleFacts],
    text: str,
    proposals: tuple[Proposal, ...] = (),
    level: Level = "problem",
) -> list[Finding]:
    """Return a finding about some images, or nothing if there are none."""
    names, splits = [fact.name for fact in facts], [fact.split for fact in facts]
    return name_some(kind, text, names, splits, level=level, proposals=proposals)


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
                {
                    "condition": one.condition,
                    "settings": one.settings,
                    "unfinished": one.unfinished,
                }
                for one in finding.proposals
            ]
        return values

    def listings(self) -> list[Listing]:
        """Return the report as tables: splits, classes, and values if they are in question."""
        tables = [self._split_listing(), self._class_listing()]
        about_values = ("label-outside", "label-void", "colours-unread", "colours-unknown")
        if self.seen and any(finding.kind in about_values for finding in self.findings):
            tables.append(self._value_listing())
        return tables

    def lines(self, file: str = "") -> list[str]:
        """Return the findings, and a last line that sums them up. See `Finding.lines`."""
        lines = [f"not there: {split}: {reason}" for split, reason in self.absent.items()]
        for title, some in (("problem", self.problems), ("note", self.notes)):
            for finding in some:
                first, *rest = finding.lines(file)
                lines += [f"{title}: {first}", *rest]
        return [*lines, self.summary()]

    def summary(self) -> str:
        if not self.findings:
            return "nothing is wrong"
        parts = [
            f"{len(some)} {name}{'' if len(some) == 1 else 's'}"
            for name, some in (("problem", self.problems), ("note", self.notes))
            if some
        ]
        return ", ".join(parts if self.problems else ["no problems", *parts])

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
        return Listing(self.title or self.dataset, columns, rows)

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

    def _value_listing(self) -> Listing:
        rows = [
            (str(one.value), one.means or "?", f"{100 * one.share:.2f} %", f"{one.masks:,}")
            for one in self.seen[:MOST_ROWS]
        ]
        rest = self.seen[MOST_ROWS:]
        if rest:
            share = sum(one.share for one in rest)
            rows.append((f"{len(rest)} others", "", f"{100 * share:.2f} %", ""))
        return Listing("Values in masks", ("value", "means", "pixels", "masks"), rows)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"
