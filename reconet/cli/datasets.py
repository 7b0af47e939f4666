"""Verbs about datasets."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconet.cli.common import Json, Set
from reconet.cli.output import bar, print_json, print_result

if TYPE_CHECKING:
    from reconet.data.check_report import Problem
    from reconet.data.dataset import Dataset

Name = Annotated[str, typer.Argument(metavar="NAME", help="A dataset of `reconet data list`.")]
Root = Annotated[
    Path | None, typer.Option(help="Where its files are; by default $RECONET_DATA/<name>.")
]
Workers = Annotated[
    int | None, typer.Option(min=0, help="Processes; by default one for each core.")
]


def list_(as_json: Json = False) -> None:
    """What datasets exist: classes, images, licence, and where to get them.

    \b
    Examples:
      reconet data list
      reconet data list --json
    """
    from reconet.cli.tables import results as tables
    from reconet.data import DATASETS

    infos = {name: kind.info for name, kind in DATASETS.items()}
    values = {
        name: {
            "title": info.title,
            "classes": list(info.classes),
            "splits": dict(info.splits),
            "licence": info.licence,
            "source": info.source,
            "layout": list(info.layout),
            "prepare": DATASETS[name].prepare is not None,
        }
        for name, info in infos.items()
    }
    print_result(values, [tables.dataset_table(infos)], as_json)


def prepare(
    name: Name,
    root: Root = None,
    source: Annotated[
        Path | None, typer.Option(help="Where the files to convert are, if not near the root.")
    ] = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Convert what has to be converted, once; a second call goes on where the first stopped.

    \b
    voc12     SBD .mat files + VOC labels -> SegmentationClassAug and the trainaug list
    pcontext  .mat files or the detail API's json -> label PNGs
    coco      instances json -> label PNGs with the classes of VOC

    \b
    Examples:
      reconet data prepare voc12 --root /data/voc --source /data/benchmark_RELEASE
      reconet data prepare coco --root /data/coco --workers 8
    """
    from reconet.data import DATASETS, prepare_dataset

    with bar("prepare") as shown:
        done = prepare_dataset(name, root, source=source, workers=workers, progress=shown.at)
    official = DATASETS[name].info.splits if name in DATASETS else {}
    values = {
        "written": done.done,
        "already_there": done.skipped,
        "splits": {
            split: {"images": count, "official": official.get(split)}
            for split, count in done.counts.items()
        },
    }
    if as_json:
        print_json(values)
        return
    print(f"{name}: {done.done} files written, {done.skipped} were there already")
    for split, count in done.counts.items():
        known = official.get(split)
        note = "" if known in {None, count} else f" (officially {known})"
        print(f"  {split}: {count} images{note}")


def check(
    name: Name,
    root: Root = None,
    settings: Set = None,
    split: Annotated[
        list[str] | None, typer.Option(help="Only this split; may be repeated.")
    ] = None,
    subset: Annotated[
        bool, typer.Option("--subset", help="The files are a part of the dataset.")
    ] = False,
    sheet: Annotated[
        Path | None, typer.Option(help="Write a PNG of a few images under their labels.")
    ] = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Open every image and label and report everything that is wrong; exit code 1 if anything is.

    \b
    Examples:
      reconet data check voc12 --root /data/voc
      reconet data check scenes --sheet scenes.png
      reconet data check folder --root /data/mine --set 'data.options.classes=["cell","wall"]'
    """
    from reconet.cli.tables import results as tables
    from reconet.data.check import check as run_check
    from reconet.data.images.draw import contact_sheet

    splits, absent, broken = _splits(name, root, settings, split)
    with bar("check") as shown:
        result = run_check(splits, subset=subset, workers=workers, progress=shown.at)
    result = replace(result, problems=(*broken, *result.problems), absent=absent)
    if sheet is not None:
        contact_sheet(splits[0], sheet)
    print_result(result.as_dict(), [tables.listing(one) for one in result.listings()], as_json)
    if not as_json:
        for name, reason in result.absent.items():
            print(f"not there: {name}: {reason}")
        for proposal in result.proposals:
            print(proposal)
        print("nothing is wrong" if result.ok else f"{len(result.problems)} problems")
        if sheet is not None:
            print(f"images: {sheet}")
    if not result.ok:
        raise typer.Exit(1)


def _splits(
    name: str, root: Path | None, settings: list[str] | None, wanted: list[str] | None
) -> "tuple[list[Dataset], dict[str, str], list[Problem]]":
    """The splits that are there, or those that are asked for; why others are not; what is wrong
    with a split as a whole."""
    from reconet.data import DATASETS, open_dataset
    from reconet.data.check import ALL
    from reconet.data.check_report import Problem
    from reconet.errors import AbsentError, DataError, pick
    from reconet.recipes.overrides import apply_overrides
    from reconet.recipes.schema import Data, Recipe, Train

    kind = pick(DATASETS, name, "dataset")
    base = Recipe(data=Data(name=name, root=root), train=Train(steps=1))
    data = apply_overrides(base, settings or []).data
    if wanted:
        return [open_dataset(name, split, data.root, data.options) for split in wanted], {}, []
    found: list[Dataset] = []
    errors: dict[str, DataError] = {}
    for split in kind.info.splits:
        try:
            found.append(open_dataset(name, split, data.root, data.options))
        except DataError as error:
            errors[split] = error
    if not found:
        raise next(iter(errors.values()))
    absent = {split: str(e) for split, e in errors.items() if isinstance(e, AbsentError)}
    broken = [Problem(split=s, name=ALL, text=str(e)) for s, e in errors.items() if s not in absent]
    return found, absent, broken
