"""reconet predict."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from reconet.cli.arguments import (
    ANY_NETWORK,
    DEVICE,
    FAST,
    FLIP,
    IMPORT,
    JSON,
    LEAST_MEMORY,
    MODE,
    PRECISION,
    RELATIVE_TO,
    SCALES,
    argument,
    eval_settings,
    option,
    parse_amount,
)
from reconet.cli.output import (
    all_seconds,
    bold,
    make_table,
    print_line,
    print_note,
    print_result,
    show_progress,
)
from reconet.errors import RecipeError
from reconet.system.readable import counted
from reconet.system.run_files import RECIPE

if TYPE_CHECKING:
    from rich.console import RenderableType

    from reconet.inference import FolderResult

KINDS = {"labels": "mask"}  # a file of labels is a mask


def predict(
    network: str = ANY_NETWORK,
    images: list[str] = argument(
        "IMAGE",
        "Files, folders (with all below), 'globs' in quotes, or @list.txt: a file with one path "
        "per line (@- reads it from the standard input). Or videos, or camera:0.",
    ),
    out: Path | None = option(
        "--out DIR",
        "Folder to write, by default RUN/predictions, or predictions-<name> for a name or an "
        "export.",
    ),
    overlay: bool = option(
        "--overlay/--no-overlay", "Also write the image tinted by its labels.", True
    ),
    probabilities: bool = option(
        "--probabilities", "Also write all probabilities, as .npz.", False
    ),
    confidence: bool = option(
        "--confidence", "Also write how sure the network is of each pixel, as a grey PNG.", False
    ),
    prelabels: str | None = option(
        "--as FORMAT",
        "Also write labels to correct in a tool: coco, yolo, labelme, cvat or labelstudio.",
    ),
    tolerance: float = option(
        "--tolerance PIXELS",
        "Simplify the outlines of --as by up to this, such as 1. 0 keeps every pixel.",
        0.0,
        min=0,
        max=100,
    ),
    classes: str | None = option(
        "--classes A,B,...", "Keep only these classes. The rest becomes background or void."
    ),
    gallery: bool = option("--gallery", "Also write a page with thumbnails of all.", False),
    overwrite: bool = option(
        "--overwrite", "Predict all again, and replace those of another network.", False
    ),
    scales: str | None = SCALES,
    flip: bool | None = FLIP,
    mode: str | None = MODE,
    relative_to: str | None = RELATIVE_TO,
    memory: str = option("--memory SIZE", "For scores and feature maps, e.g. 500MB.", "2GiB"),
    precision: str | None = PRECISION,
    fast: bool = FAST,
    device: str = DEVICE,
    verbose: bool = option("--verbose", "Also print how images are shown to the network.", False),
    as_json: bool = JSON,
    imports: list[str] | None = IMPORT,
) -> None:
    """Segment images: write a mask and an overlay of each.

    The classes that were found are printed with their shares. Run the command again to resume:
    finished images are skipped. Broken files are listed at the end, and the exit code is 1. Files
    that reconet did not write are never overwritten.

    \b
    Examples:
      reconet predict voc12 street.jpg
      reconet predict runs/first photos --out labelled --scales 0.75,1,1.25 --flip
      reconet predict voc12 photos --classes person,dog --gallery
      reconet predict runs/first photos --out to-correct --as labelme --tolerance 1
      reconet predict runs/first street.mp4 --out videos
    """
    settings = eval_settings(scales, flip, mode, relative_to)
    budget = parse_amount(memory, "--memory", LEAST_MEMORY)
    from reconet.inference import is_video, predict_folder
    from reconet.recipes import apply_overrides

    _check_order(network, images[0])
    kept = [name.strip() for name in classes.split(",")] if classes is not None else []
    if gallery and not overlay:
        raise RecipeError("--gallery shows overlays: leave out --no-overlay.")
    if tolerance and prelabels is None:
        raise RecipeError("--tolerance is for the outlines of --as: name a format too.")
    videos = [one for one in images if is_video(one)]
    if videos:
        if len(videos) < len(images):
            raise RecipeError("name images or videos, not both in one command.")
        refused = {"--probabilities": probabilities, "--confidence": confidence}
        refused |= {"--no-overlay": not overlay, "--as": bool(prelabels), "--gallery": gallery}
        for name in [name for name, given in refused.items() if given]:
            raise RecipeError(f"{name} is not for videos: they become one video of overlays.")
        how: dict[str, Any] = {"device": device, "precision": precision, "fast": fast}
        _predict_videos(network, videos, out, settings, budget, kept, overwrite, as_json, how)
        return
    with show_progress("predict") as progress:
        result = predict_folder(
            network,
            images,
            out,
            overlay=overlay,
            probabilities=probabilities,
            confidence=confidence,
            prelabels=prelabels,
            tolerance=tolerance,
            classes=kept,
            change=lambda recipe: apply_overrides(recipe, settings),
            memory=budget,
            device=device,
            precision=precision,
            fast=fast,
            overwrite=overwrite,
            progress=progress,
        )
    if result is None:  # of many processes, one has the result
        return
    pages = {}
    if gallery:
        from reconet.report import write_gallery

        pages["gallery"] = str(write_gallery(result))
    seconds = all_seconds(result.seconds)
    lines = [bold(f"gallery: {_short(Path(page))}") for page in pages.values()]
    parts = [*_tables(result, seconds, verbose), *lines]
    print_result(result.as_dict() | {"seconds": seconds} | pages, parts, as_json)
    _print_remarks(result)


def _check_order(network: str, image: str) -> None:
    """Refuse an image before the network, with the command that was meant."""
    from reconet.inference import is_video, shipped_networks
    from reconet.inference.plan import SUFFIXES
    from reconet.zoo import CATALOGUE

    path = Path(image)
    named = image in {*shipped_networks(), *CATALOGUE} and not path.exists()
    trained = path.suffix == ".safetensors" or (path / RECIPE).is_file()
    pictured = network.lower().endswith(SUFFIXES) or is_video(network)
    if (named or trained) and (pictured or os.path.isdir(network)):
        raise RecipeError(f"the network comes first: reconet predict {image} {network}")


def _predict_videos(
    source: str,
    videos: list[str],
    out: Path | None,
    settings: list[str],
    budget: int,
    classes: Sequence[str],
    overwrite: bool,
    as_json: bool,
    how: Mapping[str, Any],
) -> None:
    """Write one video of overlays for each argument."""
    from reconet.inference import Predictor, Protocol, find_network
    from reconet.inference.folder import default_out
    from reconet.inference.video import predict_video
    from reconet.recipes import apply_overrides

    with show_progress("predict") as progress:
        network = find_network(source, progress=progress)
        predictor = Predictor.from_run(network.path, progress=progress, **how)
        recipe = apply_overrides(predictor.network.info.recipe, settings)
        protocol = Protocol.of(recipe.eval, recipe.data)
        predictor.protocol = replace(protocol, budget_bytes=budget)
        if classes:
            predictor.keep_classes(classes)
        folder = out or default_out(network, how["fast"])
        results = [
            predict_video(predictor, one, folder, overwrite=overwrite, progress=progress)
            for one in videos
        ]
    values = [{"source": r.source, "path": str(r.path), "frames": r.frames} for r in results]
    lines = [f"{result.path}: {result.frames} frames" for result in results]
    print_result({"format": 1, "videos": values}, lines, as_json)


def _tables(
    result: "FolderResult", seconds: Mapping[str, float], verbose: bool
) -> "list[RenderableType]":
    """Return what was found and where it is, then how it was made and how long that took.

    Long texts are lines: a narrow table would break them.
    """
    (first, *others) = result.images
    if "shares" in first and not others:
        rows = [[name, f"{100 * share:.1f}"] for name, share in first["shares"].items()]
        again = " (done before; --overwrite does it again)" if first["status"] == "skipped" else ""
        parts: list[RenderableType] = [make_table("", ["class", "% of the image"], rows)]
        for kind, name in first["outputs"].items():
            parts.append(bold(f"{KINDS.get(kind, kind)}: {_short(result.out / name)}{again}"))
    else:
        counts = [str(len(result.having(status))) for status in ("done", "skipped", "failed")]
        parts = [
            bold(f"predictions in {_short(result.out)}"),
            make_table("", ["images", "done", "skipped", "failed"], [["", *counts]]),
        ]
        rows = [[n, f"{100 * share:.1f}", str(k)] for n, (share, k) in result.classes().items()]
        if rows:
            parts.append(make_table("", ["class", "% of all pixels", "images"], rows))
    written = result.prelabels
    if written is not None:
        files = counted(written.files, "file")
        parts.append(bold(f"{written.format}: {_short(written.folder)} ({files})"))
    times = ", ".join(f"{name} {seconds[name]:.1f}" for name in ("start", "open", "segment"))
    return [
        *parts,
        f"network: {result.network}, run as {result.how}",
        *([f"protocol: {result.protocol}"] if verbose else []),
        f"time: {seconds['total']:.1f} s ({times})",
    ]


def _short(path: Path) -> str:
    """Return a path as the user would type it here."""
    here = Path.cwd()
    return os.path.relpath(path, here) if path.is_relative_to(here) else str(path)


def _print_remarks(result: "FolderResult") -> None:
    """Print a line for each image with a note or an error. Exit with code 1 if any failed."""
    if result.untried:
        hints = dict.fromkeys((".heic", ".heif"), " (pip install pillow-heif to read them)")
        counts = [f"{count} {name}{hints.get(name, '')}" for name, count in result.untried.items()]
        print_note(f"not tried, not the suffix of an image: {', '.join(counts)}")
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
