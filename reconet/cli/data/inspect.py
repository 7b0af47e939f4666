"""reconet data inspect."""

from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.arguments import (
    DeviceOption,
    FolderArgument,
    FormatOption,
    ImportOption,
    JsonOption,
    SetOption,
    WorkersOption,
)
from reconet.cli.output import print_line, print_result

RecipeOption = Annotated[
    Path | None,
    typer.Option(
        "--recipe", metavar="FILE", help="Write the recipe to this file, to edit and train it."
    ),
]


def inspect(
    folder: FolderArgument,
    settings: SetOption = None,
    format_name: FormatOption = None,
    recipe: RecipeOption = None,
    workers: WorkersOption = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
    imports: ImportOption = None,
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
    from reconet.cli.own_folder import inspect_own
    from reconet.cli.tables.own_folder import inspection_parts
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
