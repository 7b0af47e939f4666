"""reconet data: list, inspect, prepare and check datasets."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from reconet.cli.arguments import (
    DATASET_ROOT,
    DEVICE,
    FORMAT,
    IMPORT,
    JSON,
    SET,
    WORKERS,
    argument,
    option,
)
from reconet.cli.output import bold, make_table, print_json, print_line, print_result, show_progress
from reconet.errors import RecipeError, pick
from reconet.system.readable import counted

if TYPE_CHECKING:
    from reconet.recipes.schema import Data


def list_(imports: list[str] | None = IMPORT, as_json: bool = JSON) -> None:
    """List the datasets, and where to get them.

    The table has classes, images and licence of each.

    \b
    Examples:
      reconet data list
      reconet data list --json
    """
    from reconet.data import DATASETS

    values, rows, lines = {}, [], []
    for name, kind in DATASETS.items():
        info = kind.info
        values[name] = {
            "title": info.title,
            "classes": list(info.classes),
            "splits": dict(info.splits),
            "secret_splits": list(kind.secret_splits),
            "licence": info.licence,
            "source": info.source,
            "layout": list(info.layout),
            "notes": list(info.notes),
            "prepare": kind.prepare is not None,
        }
        splits = ", ".join(f"{split} {count or '?'}" for split, count in info.splits.items())
        rows.append([name, info.title, str(len(info.classes) or "yours"), splits])
        lines.append(f"{name}: {info.source} (licence: {info.licence})")
    columns = ("name", "what", "classes", "images")
    table = make_table("Datasets", columns, rows, text=columns)
    # A cell would break addresses.
    print_result(values, [table, bold("Where to get them"), *lines], as_json)


def inspect(
    folder: Path = argument("DIR", "A folder with your own images and labels."),
    settings: list[str] | None = SET,
    format_name: str | None = FORMAT,
    recipe: Path | None = option(
        "--recipe FILE", "Write the recipe to this file, to edit and train it."
    ),
    workers: int | None = WORKERS,
    device: str = DEVICE,
    as_json: bool = JSON,
    imports: list[str] | None = IMPORT,
) -> None:
    """Recognise a folder of your own images, and check it.

    Prints what `reconet train DIR` would do, with the settings that it would choose. Nothing is
    written, unless you name a file for the recipe: then masks that have to be drawn are kept in the
    cache too. The exit code is 1 if there are problems. docs/own-data.md shows the formats.

    \b
    Examples:
      reconet data inspect mine/
      reconet data inspect mine/ --json
      reconet data inspect mine/ --format yolo
      reconet data inspect mine/ --recipe mine.json
    """
    from reconet.cli.train import inspect_own, inspection_parts
    from reconet.recipes import write_recipe
    from reconet.system.files import check_output_file

    if recipe is not None:
        check_output_file(recipe, option="--recipe")
    keep_masks = recipe is not None
    found = inspect_own(
        folder, settings, device, format_name, keep_masks=keep_masks, workers=workers
    )
    print_result(found.as_dict(), inspection_parts(found, short=False), as_json)
    if recipe is not None:
        write_recipe(found.recipe, recipe)
        print_line(f"recipe: {recipe}; train it with `reconet train {recipe}`", err=True)
    if not found.report.ok:
        raise typer.Exit(1)


def prepare(
    dataset: str = argument(
        "DATASET", "A name of `reconet data list`, or a folder of your own images."
    ),
    root: Path | None = DATASET_ROOT,
    source: Path | None = option("--source DIR", "Files to convert, if they are not in the root."),
    workers: int | None = WORKERS,
    as_json: bool = JSON,
    imports: list[str] | None = IMPORT,
) -> None:
    """Convert the files of a dataset that needs it, once.

    docs/datasets.md says which datasets need it, and what is made of which files. Of a folder of
    your own, masks are drawn into the cache, as `reconet train DIR` does. Run the command again to
    resume.

    \b
    Examples:
      reconet data prepare voc12 --root /data/voc --source /data/benchmark_RELEASE
      reconet data prepare pcontext --root /data/context
      reconet data prepare coco --root /data/coco --workers 8
      reconet data prepare mine/
    """
    from reconet.data import DATASETS, prepare_dataset

    if dataset not in DATASETS and Path(dataset).is_dir():
        _prepare_folder(Path(dataset), workers, as_json)
        return
    with show_progress("prepare") as progress:
        prepared = prepare_dataset(dataset, root, source=source, workers=workers, progress=progress)
    official = DATASETS[dataset].info.splits
    splits, lines = {}, []
    for split, count in prepared.counts.items():
        known = official.get(split)
        splits[split] = {"images": count, "official": known}
        remark = "" if known in {None, count} else f" (officially {known})"
        lines.append(f"  {split}: {counted(count, 'image')}{remark}")
    values = {"written": prepared.done, "already_there": prepared.skipped, "splits": splits}
    written = counted(prepared.done, "file")
    first = f"{dataset}: {written} written, {prepared.skipped} there already"
    print_result(values, [first, *lines], as_json)


def _prepare_folder(folder: Path, workers: int | None, as_json: bool) -> None:
    """Draw the masks of somebody's own folder into the cache."""
    from reconet.data.formats import FORMATS, keep, labels_folder, read_folder

    with show_progress("prepare") as progress:
        found = read_folder(folder, progress=progress)
        keep(found.data, workers, progress)
    place, count = labels_folder(found.data), len(found.data.images)
    if as_json:
        print_json({"format": found.format, "masks": count, "folder": place and str(place)})
        return
    where = f"{counted(count, 'image')}, labels in {place}" if place else "nothing to prepare"
    print_line(f"{folder}: {FORMATS[found.format].title}: {where}")


def check(
    dataset: str = argument(
        "DATASET", "A name of `reconet data list`, or a file such as mine.yaml."
    ),
    root: Path | None = DATASET_ROOT,
    settings: list[str] | None = SET,
    split: list[str] | None = option("--split NAME", "Only this split. May be repeated."),
    subset: bool = option("--subset", "Expect only a part of the dataset's files.", False),
    sheet: Path | None = option("--sheet FILE", "Write a PNG of a few images under their labels."),
    augmented: Path | None = option(
        "--augmented FILE",
        "Write a PNG of training crops: what a network sees, and its labels.",
    ),
    recipe: str | None = option(
        "--recipe RECIPE",
        "The recipe whose crops --augmented shows, by default the first of the dataset.",
    ),
    workers: int | None = WORKERS,
    as_json: bool = JSON,
    imports: list[str] | None = IMPORT,
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
    from reconet.data import open_split
    from reconet.data.check import check_dataset
    from reconet.data.dataset_file import is_dataset_file
    from reconet.data.images.sheets import contact_sheet, is_sheet, write_augmented_sheet
    from reconet.data.transforms import Augmentation
    from reconet.recipes import RECIPES
    from reconet.system.files import check_output_file

    for file, flag in ((sheet, "--sheet"), (augmented, "--augmented")):
        if file is not None:
            check_output_file(file, is_sheet, flag)
    if augmented is None and recipe is not None:
        raise RecipeError("--recipe says whose crops --augmented FILE shows; name that too.")
    data = _resolve_data(dataset, root, settings)
    first = next((name for name, one in RECIPES.items() if one.make().data.name == data.name), None)
    recipe = recipe or first
    trained_on = _resolve_data(dataset, root, settings, recipe) if augmented else data
    with show_progress("check") as progress:
        result, splits = check_dataset(
            data, split or (), subset=subset, workers=workers, progress=progress
        )
    lines = result.lines(Path(dataset).name if is_dataset_file(dataset) else "")
    if sheet is not None:
        contact_sheet(splits[0], sheet)
        lines = [*lines, f"images: {sheet}"]
    if augmented is not None:
        train_set = open_split(trained_on, trained_on.train_split)
        write_augmented_sheet(train_set, Augmentation.of(trained_on), augmented)
        as_in = f", as in {recipe}" if recipe else ""
        lines = [*lines, f"training crops{as_in}: {augmented}"]
    tables = [make_table(t.title, t.columns, t.rows) for t in result.listings()]
    print_result(result.as_dict(), [*tables, *lines], as_json)
    if not result.ok:
        raise typer.Exit(1)


def _resolve_data(
    name: str, root: Path | None, settings: list[str] | None, recipe: str | None = None
) -> "Data":
    """Return the dataset of this name or file, with --root and --set applied.

    The other settings are those of a recipe, or the defaults.
    """
    from reconet.data import DATASETS
    from reconet.data.dataset_file import dataset_settings, is_dataset_file
    from reconet.recipes import apply_overrides, find_recipe
    from reconet.recipes.public import NEW_OPTIONS
    from reconet.recipes.schema import Data, Recipe, Train

    described = dataset_settings(Path(name)) if is_dataset_file(name) else []
    if not described:
        pick(DATASETS, name, "dataset")
    own = "folder" if described else name
    data = Data(name=own, options=dict(NEW_OPTIONS) if name == "folder" else {})
    base = find_recipe(recipe) if recipe else Recipe(data=data, train=Train(steps=1))
    if base.data.name != own:
        raise RecipeError(f"--recipe {recipe} is for the dataset {base.data.name}, not for {own}.")
    moved = [] if root is None else [f"data.root={root}"]
    return apply_overrides(base, [*described, *moved, *(settings or [])]).data


VERBS: dict[str, Callable[..., None]] = {
    "list": list_,
    "inspect": inspect,
    "prepare": prepare,
    "check": check,
}
