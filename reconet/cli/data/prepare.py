"""reconet data prepare."""

from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.arguments import (
    DatasetArgument,
    DatasetRootOption,
    ImportOption,
    JsonOption,
    WorkersOption,
)
from reconet.cli.output import print_json, print_line, show_progress
from reconet.system.readable import counted

SourceOption = Annotated[
    Path | None,
    typer.Option("--source", metavar="DIR", help="Files to convert, if they are not in the root."),
]


def prepare(
    dataset: DatasetArgument,
    root: DatasetRootOption = None,
    source: SourceOption = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
    imports: ImportOption = None,
) -> None:
    """Convert the files of a dataset that needs it, once.

    docs/datasets.md says which datasets need it, and what is made of which files. Run the command
    again to resume.

    \b
    Examples:
      reconet data prepare voc12 --root /data/voc --source /data/benchmark_RELEASE
      reconet data prepare pcontext --root /data/context
      reconet data prepare coco --root /data/coco --workers 8
    """
    from reconet.data import DATASETS, prepare_dataset

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
