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
from reconet.errors import RecipeError

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
AugmentedOption = Annotated[
    Path | None,
    typer.Option(
        "--augmented",
        metavar="FILE",
        help="Write a PNG of training crops: what a network sees, and its labels.",
    ),
]
RecipeOption = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        metavar="RECIPE",
        help="The recipe whose crops --augmented shows, by default the first of the dataset.",
    ),
]


def check(
    dataset: DatasetOrFileArgument,
    root: DatasetRootOption = None,
    settings: SetOption = None,
    split: SplitsOption = None,
    subset: SubsetOption = False,
    sheet: SheetOption = None,
    augmented: AugmentedOption = None,
    recipe: RecipeOption = None,
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
      reconet data check mine.yaml --augmented crops.png --set data.augment.rotation=20
    """
    from reconet.cli.tables.data import listing_table
    from reconet.data import open_split
    from reconet.data.check import check_dataset
    from reconet.data.dataset_file import is_dataset_file
    from reconet.data.images.augmented_sheet import write_augmented_sheet
    from reconet.data.images.draw import contact_sheet, is_sheet
    from reconet.data.transforms import Augmentation
    from reconet.system.files import check_output_file

    if sheet is not None:
        check_output_file(sheet, is_sheet, "--sheet")
    if augmented is not None:
        check_output_file(augmented, is_sheet, "--augmented")
    elif recipe is not None:
        raise RecipeError("--recipe says whose crops --augmented FILE shows; name that too.")
    data = _resolve_data(dataset, root, settings)
    recipe = recipe or _first_recipe(data.name)
    trained_on = _resolve_data(dataset, root, settings, recipe) if augmented else data
    with show_progress("check") as progress:
        result, splits = check_dataset(
            data, split or (), subset=subset, workers=workers, progress=progress
        )
    if sheet is not None:
        contact_sheet(splits[0], sheet)
    if augmented is not None:
        train_set = open_split(trained_on, trained_on.train_split)
        write_augmented_sheet(train_set, Augmentation.of(trained_on), augmented)
    tables = [listing_table(one) for one in result.listings()]
    file = Path(dataset).name if is_dataset_file(dataset) else ""
    lines = [*result.lines(file), *([] if sheet is None else [f"images: {sheet}"])]
    if augmented is not None:
        as_in = f", as in {recipe}" if recipe else ""
        lines.append(f"training crops{as_in}: {augmented}")
    print_result(result.as_dict(), [*tables, *lines], as_json)
    if not result.ok:
        raise typer.Exit(1)


def _first_recipe(dataset: str) -> str | None:
    from reconet.recipes import RECIPES

    return next((name for name, make in RECIPES.items() if make().data.name == dataset), None)


def _resolve_data(
    name: str, root: Path | None, settings: list[str] | None, recipe: str | None = None
) -> "Data":
    """Return the dataset of this name or file, with --root and --set applied.

    The other settings are those of a recipe, or the defaults.
    """
    from reconet.data import DATASETS
    from reconet.data.dataset_file import dataset_settings, is_dataset_file
    from reconet.errors import pick
    from reconet.recipes import apply_overrides, find_recipe
    from reconet.recipes.folder import NEW_OPTIONS
    from reconet.recipes.schema import Data, Recipe, Train

    described = dataset_settings(Path(name)) if is_dataset_file(name) else []
    if not described:
        pick(DATASETS, name, "dataset")
    own = "folder" if described else name
    options = NEW_OPTIONS if name == "folder" else {}
    data = Data(name=own, options=dict(options))
    base = find_recipe(recipe) if recipe else Recipe(data=data, train=Train(steps=1))
    if base.data.name != own:
        raise RecipeError(f"--recipe {recipe} is for the dataset {base.data.name}, not for {own}.")
    moved = [] if root is None else [f"data.root={root}"]
    return apply_overrides(base, [*described, *moved, *(settings or [])]).data
