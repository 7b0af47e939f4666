"""reconet data check."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconet.cli.arguments import (
    DatasetArgument,
    DatasetRootOption,
    ImportOption,
    JsonOption,
    SetOption,
    WorkersOption,
)
from reconet.cli.output import print_result, show_progress
from reconet.system.readable import counted

if TYPE_CHECKING:
    from reconet.data.check_report import CheckReport, DataProblem
    from reconet.data.dataset import Dataset

SplitsOption = Annotated[
    list[str] | None,
    typer.Option("--split", metavar="NAME", help="Only this split. May be repeated."),
]
SubsetOption = Annotated[
    bool, typer.Option("--subset", help="Expect only a part of the dataset's files.")
]
SheetOption = Annotated[
    Path | None,
    typer.Option("--sheet", metavar="FILE", help="Write a PNG of a few images under their labels."),
]


def check(
    dataset: DatasetArgument,
    root: DatasetRootOption = None,
    settings: SetOption = None,
    split: SplitsOption = None,
    subset: SubsetOption = False,
    sheet: SheetOption = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
    imports: ImportOption = None,
) -> None:
    """Open every image and mask, and list all mistakes.

    The exit code is 1 if there are any.

    \b
    Examples:
      reconet data check scenes --sheet scenes.png
      reconet data check voc12 --root /data/voc
      reconet data check folder --root /data/mine --set 'data.options.classes=["cell","wall"]'
    """
    from reconet.cli.tables.data import listing_table
    from reconet.data.check import check_splits
    from reconet.data.images.draw import contact_sheet

    splits, absent, broken = _open_splits(dataset, root, settings, split)
    with show_progress("check") as progress:
        result = check_splits(splits, subset=subset, workers=workers, progress=progress)
    result = replace(result, problems=(*broken, *result.problems), absent=absent)
    if sheet is not None:
        contact_sheet(splits[0], sheet)
    print_result(result.as_dict(), [listing_table(one) for one in result.listings()], as_json)
    if not as_json:
        _print_summary(result, sheet)
    if not result.ok:
        raise typer.Exit(1)


def _print_summary(result: "CheckReport", sheet: Path | None) -> None:
    for split, reason in result.absent.items():
        print(f"not there: {split}: {reason}")
    for proposal in result.proposals:
        print(proposal)
    print("nothing is wrong" if result.ok else counted(len(result.problems), "problem"))
    if sheet is not None:
        print(f"images: {sheet}")


def _open_splits(
    name: str, root: Path | None, settings: list[str] | None, wanted: list[str] | None
) -> "tuple[list[Dataset], dict[str, str], list[DataProblem]]":
    """Open the splits that are wanted, by default all that are there.

    Also return why splits are absent, and problems that concern a split as a whole.
    """
    from reconet.data import DATASETS, open_dataset
    from reconet.data.check import ALL
    from reconet.data.check_report import DataProblem
    from reconet.errors import AbsentError, DataError, pick
    from reconet.recipes import apply_overrides
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
    broken = [
        DataProblem(split=s, name=ALL, text=str(e)) for s, e in errors.items() if s not in absent
    ]
    return found, absent, broken
