"""From a folder of somebody's own images to a recipe that can be trained."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from reconet.data.check import CheckReport, check_dataset, check_splits
from reconet.data.dataset import Dataset, FileDataset, evenly_spaced, read_options
from reconet.data.formats import (
    FORMATS,
    Recognised,
    folder_options,
    is_kept,
    keep,
    open_drawn,
    read_folder,
)
from reconet.data.formats.masks import UNNAMED, UNNAMED_COLOURS
from reconet.data.images.read import read_frame
from reconet.data.sets.folder_masks import FolderOptions
from reconet.engine.forecast import free_memory
from reconet.errors import DataError, RecipeError
from reconet.recipes import Recipe, apply_overrides
from reconet.recipes.choose import Choice, Chosen, Facts, choose
from reconet.recipes.schema import Data, Train
from reconet.system.distributed import pick_device
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted
from reconet.types import IGNORE

LOOKED_AT = 64  # images whose sizes are read
UNKNOWN_MEMORY = 8 * 10**9
# Findings that do not stop a training of a folder: it leaves these images and classes out.
TOLERATED = ("missing-mask", "missing-partner", "class-empty")
YOURS = "you set it"


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """All that is known about a folder, and the training that fits it."""

    folder: Path
    found: Recognised
    report: CheckReport
    facts: Facts
    choice: Choice
    recipe: Recipe  # with the settings of the user
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        return FORMATS[self.found.format].title

    @property
    def rows(self) -> list[Chosen]:
        """Return the settings with their reasons, for people."""
        values = self.recipe.model_dump(mode="json")
        rows = [Chosen("recipe", self.choice.base, self.choice.base_reason)]
        for one in self.choice.settings:
            group, name = one.setting.split(".")
            value = values[group][name]
            shown = value if isinstance(value, str) else json.dumps(value)
            if isinstance(value, list):
                shown = "x".join(map(str, value))
            chosen = apply_overrides(self.recipe, [f"{one.setting}={one.value}"])
            yours = chosen != self.recipe
            setting = one.setting
            if value is None and setting == "train.steps":  # the length is given in epochs
                setting, shown = "train.epochs", str(self.recipe.train.epochs)
            rows.append(Chosen(setting, shown, YOURS if yours else one.reason))
        return rows

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "folder": str(self.folder),
            "format": self.found.format,
            "evidence": self.found.evidence,
            "other_formats": list(self.found.others),
            "notes": list(self.notes),
            "check": self.report.as_dict(),
            "base_recipe": self.choice.base,
            "settings": [one._asdict() for one in self.rows],
            "recipe": self.recipe.model_dump(mode="json"),
        }

    def check(self) -> None:
        """Raise an error of one line if a training would go wrong."""
        problems = self.report.problems
        if problems:
            first = problems[0].lines()[0]
            raise DataError(
                f"{counted(len(problems), 'problem')} in {self.folder}: {first}. "
                f"`reconet data inspect {self.folder}` shows more."
            )


def inspect_folder(
    folder: Path,
    settings: Sequence[str] = (),
    *,
    format_name: str | None = None,
    device: str = "auto",
    keep_masks: bool = False,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> Inspection:
    """Recognise a folder, check its images and labels, and choose how to train on them.

    `settings` are those of --set. Nothing is written unless `keep_masks`: then masks that have to
    be drawn are kept in the cache, so that the recipe can be trained.
    """
    place = pick_device(device)
    found = read_folder(folder, format_name, progress)
    if keep_masks:
        keep(found.data, workers, progress)
    data = _data(found, settings)
    report, splits = _check(found, data, workers, progress)
    notes = list(found.data.notes)
    named = any(one.startswith("data.options.classes") for one in settings)
    if named:
        notes = [note for note in notes if note not in (UNNAMED, UNNAMED_COLOURS)]
    else:
        report, data, dropped = _without_empty(report, data)
        notes += dropped
    # A mask that is listed, and is not there, is not left out.
    tolerated = TOLERATED[1:] if found.data.images else TOLERATED
    findings = [replace(f, level="note") if f.kind in tolerated else f for f in report.findings]
    report = replace(report, findings=tuple(findings))
    facts = gather_facts(report, splits, settings, place)
    choice = choose(facts)
    chosen = choice.recipe.data.model_copy(
        update={"name": data.name, "root": data.root, "options": data.options}
    )
    recipe = apply_overrides(choice.recipe.model_copy(update={"data": chosen}), settings)
    return Inspection(
        folder=folder,
        found=found,
        report=report,
        facts=facts,
        choice=choice,
        recipe=recipe,
        notes=tuple(notes),
    )


def _data(found: Recognised, settings: Sequence[str]) -> Data:
    """Return the folder as a dataset, with the settings of the user about data."""
    options = {"title": found.data.folder.absolute().name, **folder_options(found.data)}
    data = Data(name="folder", root=found.data.folder.absolute(), options=options)
    about_data = [one for one in settings if one.startswith("data.")]
    chosen = apply_overrides(Recipe(data=data, train=Train(steps=1)), about_data).data
    return chosen.model_copy(update={"options": with_names(chosen.options, options)})


def with_names(chosen: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Give the classes that were found other names. Values in masks keep their meaning."""
    names, old = chosen.get("classes"), found["classes"]
    told = [key for key in ("label_map", "colours") if found.get(key)]
    theirs = any(chosen.get(key) != found[key] for key in told)
    if not told or theirs or not isinstance(names, list) or names == old:
        return dict(chosen)
    if len(names) != len(old):
        raise RecipeError(
            f"data.options.classes has {counted(len(names), 'name')}, and the masks hold "
            f"{counted(len(old), 'class', 'classes')}, in this order: {', '.join(old)}."
        )
    changed, name_of = dict(chosen), dict(zip(old, names, strict=True))
    if found.get("colours"):
        changed["colours"] = {name_of.get(n, n): c for n, c in found["colours"].items()}
    if found.get("label_map"):
        means = found["label_map"].items()
        changed["label_map"] = {n: name_of.get(to, to) for n, to in means}
    return changed


def _check(
    found: Recognised, data: Data, workers: int | None, progress: Progress
) -> tuple[CheckReport, list[Dataset]]:
    if is_kept(found.data):
        return check_dataset(data, workers=workers, progress=progress)
    options = read_options(FolderOptions, data.options)
    splits = open_drawn(found.data, options)
    return check_splits(splits, options=options, workers=workers, progress=progress), splits


def _without_empty(report: CheckReport, data: Data) -> tuple[CheckReport, Data, list[str]]:
    """Leave out classes that have no pixel anywhere, unless masks are read wrongly."""
    pixels_k = [sum(counts) for counts in zip(*(s.pixels_k for s in report.splits), strict=True)]
    kept = [k for k, pixels in enumerate(pixels_k) if pixels]
    wrong = {problem.kind for problem in report.problems} - {*TOLERATED}
    if len(kept) in (0, len(pixels_k)) or wrong:
        return report, data, []
    if len(kept) < 2:
        raise DataError(
            f"only the class {report.classes[kept[0]]!r} has pixels in {data.root}: there is "
            "nothing to tell apart."
        )
    splits = (
        replace(
            split,
            pixels_k=tuple(split.pixels_k[k] for k in kept),
            images_k=tuple(split.images_k[k] for k in kept),
            widths_k=tuple(split.widths_k[k] for k in kept),
        )
        for split in report.splits
    )
    empty = [name for k, name in enumerate(report.classes) if k not in kept]
    report = replace(
        report,
        classes=tuple(report.classes[k] for k in kept),
        splits=tuple(splits),
        findings=tuple(finding for finding in report.findings if finding.kind != "class-empty"),
    )
    options = without_classes(data.options, empty)
    classes = counted(len(empty), "class", "classes")
    note = f"left out: {classes} without pixels ({', '.join(empty)})"
    return report, data.model_copy(update={"options": options}), [note]


def without_classes(options: Mapping[str, Any], empty: Sequence[str]) -> dict[str, Any]:
    """Return options in which some classes are no more. Numbers and colours keep their meaning."""
    read = read_options(FolderOptions, options)
    changed = {**options, "classes": [name for name in read.classes if name not in empty]}
    for key in ("colours", "palette"):
        if options.get(key) is not None:
            changed[key] = {name: c for name, c in options[key].items() if name not in empty}
    if read.colours is None:
        meanings: Mapping[int, int | str] | None = read.label_map
        if meanings is None:
            meanings = dict(enumerate(read.classes)) | dict.fromkeys(read.ignored, "ignore")
        names = dict(enumerate(read.classes)) | {IGNORE: "ignore"}
        told = {str(number): names[read.label_of(to)] for number, to in meanings.items()}
        changed["label_map"] = {number: to for number, to in told.items() if to not in empty}
    return changed


def gather_facts(
    report: CheckReport, splits: Sequence[Dataset], settings: Sequence[str], device: torch.device
) -> Facts:
    """Gather what the rules of choose() need to know."""
    by_name = {split.split: split for split in splits}
    absent = [name for name in ("train", "val") if name not in by_name]
    if absent:
        raise DataError(f"there are no images for {' and '.join(absent)}.")
    train = next(one for one in report.splits if one.split == "train")
    height, width = _typical_size(by_name["train"])
    total = max(1, sum(train.pixels_k))
    cuda = device.type == "cuda"
    return Facts(
        images=train.images,
        val_images=len(by_name["val"]),
        height=height,
        width=width,
        shares=tuple(pixels / total for pixels in train.pixels_k),
        thin=min((widths.median for widths in train.widths_k if widths), default=None),
        device=device.type,
        memory=free_memory(device) or UNKNOWN_MEMORY,
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1,
        bf16=cuda and torch.cuda.is_bf16_supported(including_emulation=False),
        pretrained="null" not in _values(settings, "model.weights"),
    )


def _values(settings: Sequence[str], key: str) -> list[str]:
    pairs = [one.partition("=") for one in settings]
    return [value.strip() for name, _, value in pairs if name.strip() == key][-1:]


def _typical_size(dataset: Dataset) -> tuple[int, int]:
    """Return the median height and width of some images."""
    assert isinstance(dataset, FileDataset)
    sizes = []
    for index in evenly_spaced(len(dataset), LOOKED_AT):
        try:
            frame = read_frame(dataset.pairs[index].image)
            sizes.append(frame.upright if dataset.upright else frame.stored)
        except DataError:
            continue  # the check has told it
    if not sizes:
        raise DataError(f"no image of {dataset.split} can be read, such as {dataset.name(0)}.")
    return round(median(h for h, _ in sizes)), round(median(w for _, w in sizes))


def check_one_process(folder: str) -> None:
    """Raise if several processes were started: they take a recipe, which one of them makes."""
    if int(os.environ.get("WORLD_SIZE", "1") or 1) > 1:
        raise RecipeError(
            f"several processes take a recipe: `reconet data inspect {folder} --recipe mine.json`, "
            "and then train mine.json."
        )
