"""reconet data prepare."""

from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.arguments import (
    DatasetRootOption,
    ImportOption,
    JsonOption,
    WorkersOption,
)
from reconet.cli.output import print_json, print_line, show_progress
from reconet.system.readable import counted

DatasetOrFolderArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATASET", help="A name of `reconet data list`, or a folder of your own images."
    ),
]
SourceOption = Annotated[
    Path | None,
    typer.Option("--source", metavar="DIR", help="Files to convert, if they are not in the root."),
]


def prepare(
    dataset: DatasetOrFolderArgument,
    root: DatasetRootOption = None,
    source: SourceOption = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
    imports: ImportOption = None,
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
    if as_json:
        splits = {
            split: {"images": count, "official": official.get(split)}
            for split, count in prepared.counts.items()
        }
        print_json({"written": prepared.done, "already_there": prepared.skipped, "splits": splits})
        return
    written = counted(prepared.done, "file")
    print_line(f"{dataset}: {written} written, {prepared.skipped} there already")
    for split, count in prepared.counts.items():
        known = official.get(split)
        remark = "" if known in {None, count} else f" (officially {known})"
        print_line(f"  {split}: {counted(count, 'image')}{remark}")


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
