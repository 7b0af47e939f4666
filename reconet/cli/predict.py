"""reconet predict."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconet.cli.arguments import (
    AnyNetworkArgument,
    DeviceOption,
    FastOption,
    FlipOption,
    ImportOption,
    JsonOption,
    ModeOption,
    PrecisionOption,
    RelativeToOption,
    ScalesOption,
    eval_settings,
    parse_amount,
)
from reconet.cli.output import all_seconds, print_line, print_note, print_result, show_progress
from reconet.errors import RecipeError

if TYPE_CHECKING:
    from reconet.inference import FolderResult

LEAST_MEMORY = 2**26  # bytes: no network fits into less

ImagesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="IMAGE",
        help="Files, folders (with all below), 'globs' in quotes, or @list.txt: a file with one "
        "path per line (@- reads it from the standard input). Or videos, or camera:0.",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Folder to write, by default RUN/predictions, or predictions-<name> for a name or an "
        "export.",
    ),
]
OverlayOption = Annotated[
    bool, typer.Option("--overlay/--no-overlay", help="Also write the image tinted by its labels.")
]
ProbabilitiesOption = Annotated[
    bool, typer.Option("--probabilities", help="Also write all probabilities, as .npz.")
]
OverwriteOption = Annotated[
    bool,
    typer.Option("--overwrite", help="Predict all again, and replace those of another network."),
]
AsOption = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="FORMAT",
        help="Also write labels to correct in a tool: coco, yolo, labelme, cvat or labelstudio.",
    ),
]
MemoryOption = Annotated[
    str,
    typer.Option("--memory", metavar="SIZE", help="For scores and feature maps, e.g. 500MB."),
]


def predict(
    network: AnyNetworkArgument,
    images: ImagesArgument,
    out: OutOption = None,
    overlay: OverlayOption = True,
    probabilities: ProbabilitiesOption = False,
    prelabels: AsOption = None,
    overwrite: OverwriteOption = False,
    scales: ScalesOption = None,
    flip: FlipOption = None,
    mode: ModeOption = None,
    relative_to: RelativeToOption = None,
    memory: MemoryOption = "2GiB",
    precision: PrecisionOption = None,
    fast: FastOption = False,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
    imports: ImportOption = None,
) -> None:
    """Segment images: write a mask and an overlay of each.

    For one image, the classes and their shares are printed, with the path of the overlay and the
    time that it took. Run the command again to resume: finished images are skipped. Broken files
    are listed at the end, and the exit code is 1. Files that reconet did not write are never
    overwritten.

    \b
    Examples:
      reconet predict voc12 street.jpg
      reconet predict runs/first photos --out labelled --scales 0.75,1,1.25 --flip
      reconet predict runs/first photos --out to-correct --as cvat
      reconet predict runs/first street.mp4 --out videos
      torchrun --nproc-per-node 8 -m reconet predict runs/voc photos
    """
    settings = eval_settings(scales, flip, mode, relative_to)
    from reconet.inference.video import is_video

    videos = [argument for argument in images if is_video(argument)]
    if videos:
        if len(videos) < len(images):
            raise RecipeError("name images or videos, not both in one command.")
        refused = {"--probabilities": probabilities, "--no-overlay": not overlay, "--as": prelabels}
        for name in [name for name, given in refused.items() if given]:
            raise RecipeError(f"{name} is not for videos: they become one video of overlays.")
        budget = parse_amount(memory, "--memory", LEAST_MEMORY)
        _predict_videos(
            network, videos, out, settings, budget, device, precision, fast, overwrite, as_json
        )
        return
    from reconet.cli.tables.predict import prediction_tables
    from reconet.inference import predict_folder
    from reconet.recipes import apply_overrides

    with show_progress("predict") as progress:
        result = predict_folder(
            network,
            images,
            out,
            overlay=overlay,
            probabilities=probabilities,
            prelabels=prelabels,
            change=lambda recipe: apply_overrides(recipe, settings),
            memory=parse_amount(memory, "--memory", LEAST_MEMORY),
            device=device,
            precision=precision,
            fast=fast,
            overwrite=overwrite,
            progress=progress,
        )
    if result is not None:  # of many processes, one has the result
        seconds = all_seconds(result.seconds)
        tables = prediction_tables(result, seconds)
        print_result(result.as_dict() | {"seconds": seconds}, tables, as_json)
        _print_remarks(result)


def _print_remarks(result: "FolderResult") -> None:
    """Print a line for each image with a note or an error. Exit with code 1 if any failed."""
    if result.untried:
        print_note(f"not tried, not the suffix of an image: {_count_suffixes(result.untried)}")
    for note in result.prelabels.notes if result.prelabels else ():
        print_note(note)
    for image in result.images:
        source = image["source"]
        name = source if source.isprintable() else repr(source)
        if image.get("note") and image["status"] == "done":
            print_note(f"{name}: {image['note']}")
        if image["status"] == "failed":
            reason = " ".join(image["error"].replace(source, name).split())
            where = "" if name in reason else f"{name}: "
            print_line(f"reconet: failed: {where}{reason}", err=True)
    if result.having("failed"):
        raise typer.Exit(1)


def _count_suffixes(untried: dict[str, int]) -> str:
    """List suffixes with their counts, and say what would read them."""
    hints = dict.fromkeys((".heic", ".heif"), " (pip install pillow-heif to read them)")
    return ", ".join(f"{count} {name}{hints.get(name, '')}" for name, count in untried.items())


def _predict_videos(
    source: str,
    videos: list[str],
    out: Path | None,
    settings: list[str],
    budget: int,
    device: str,
    precision: str | None,
    fast: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write one video of overlays for each argument."""
    from reconet.inference import Predictor, Protocol
    from reconet.inference.by_name import find_network
    from reconet.inference.folder.predict import default_out
    from reconet.inference.video import predict_video
    from reconet.recipes import apply_overrides

    with show_progress("predict") as progress:
        network = find_network(source, progress=progress)
        predictor = Predictor.from_run(
            network.path, device=device, precision=precision, fast=fast, progress=progress
        )
        recipe = apply_overrides(predictor.network.info.recipe, settings)
        protocol = Protocol.of(recipe.eval, recipe.data)
        predictor.protocol = replace(protocol, budget_bytes=budget)
        folder = out or default_out(network, fast)
        results = [
            predict_video(predictor, one, folder, overwrite=overwrite, progress=progress)
            for one in videos
        ]
    values = [{"source": r.source, "path": str(r.path), "frames": r.frames} for r in results]
    lines = [f"{result.path}: {result.frames} frames" for result in results]
    print_result({"format": 1, "videos": values}, lines, as_json)
