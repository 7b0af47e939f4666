"""reconet data check."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconet.cli.arguments import (
    DatasetRootOption,
    ImportOption,
    JsonOption,
    SetOption,
    WorkersOption,
)
from reconet.cli.output import print_result, show_progress

if TYPE_CHECKING:
    from reconet.recipes.schema import Data

DatasetOrFileArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATASET", help="A name of `reconet data list`, or a file such as mine.yaml."
    ),
]
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
    dataset: DatasetOrFileArgument,
    root: DatasetRootOption = None,
    settings: SetOption = None,
    split: SplitsOption = None,
    subset: SubsetOption = False,
    sheet: SheetOption = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
    imports: ImportOption = None,
) -> None:
    """Open every image and mask, and list what is wrong with them.

    Equal mistakes are counted together. Where a setting may mend them, it is printed, with the
    condition under which it is right. The exit code is 1 if there are problems. Notes are worth
    a look, but do not change it. docs/data-check.md explains every finding.

    \b
    Examples:
      reconet data check scenes --sheet scenes.png
      reconet data check voc12 --root /data/voc
      reconet data check folder --root /data/mine --set 'data.options.classes=["cell","wall"]'
      reconet data check mine.yaml --sheet mine.png
    """
    from reconet.cli.tables.data import listing_table
    from reconet.data.check import check_dataset
    from reconet.data.dataset_file import is_dataset_file
    from reconet.data.images.draw import contact_sheet, is_sheet
    from reconet.system.files import check_output_file

    if sheet is not None:
        check_output_file(sheet, is_sheet, "--sheet")
    data = _resolve_data(dataset, root, settings)
    with show_progress("check") as progress:
        result, splits = check_dataset(
            data, split or (), subset=subset, workers=workers, progress=progress
        )
    if sheet is not None:
        contact_sheet(splits[0], sheet)
    tables = [listing_table(one) for one in result.listings()]
    file = Path(dataset).name if is_dataset_file(dataset) else ""
    lines = [*result.lines(file), *([] if sheet is None else [f"images: {sheet}"])]
    print_result(result.as_dict(), [*tables, *lines], as_json)
    if not result.ok:
        raise typer.Exit(1)


def _resolve_data(name: str, root: Path | None, settings: list[str] | None) -> "Data":
    """Return the dataset of this name or file, with --root and --set applied."""
    from reconet.data import DATASETS
    from reconet.data.dataset_file import dataset_settings, is_dataset_file
    from reconet.errors import pick
    from reconet.recipes import apply_overrides
    from reconet.recipes.folder import NEW_OPTIONS
    from reconet.recipes.schema import Data, Recipe, Train

    described = dataset_settings(Path(name)) if is_dataset_file(name) else []
    if not described:
        pick(DATASETS, name, "dataset")
    options = NEW_OPTIONS if name == "folder" else {}
    data = Data(name="folder" if described else name, options=dict(options))
    base = Recipe(data=data, train=Train(steps=1))
    moved = [] if root is None else [f"data.root={root}"]
    return apply_overrides(base, [*described, *moved, *(settings or [])]).data
