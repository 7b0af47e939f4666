"""Explain one image: load the network, look into it, write figures and a page."""

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reconet.data import Dataset, has_labels, open_split
from reconet.data.classes import photograph_palette
from reconet.data.dataset import title_of
from reconet.data.images.draw import overlay
from reconet.data.images.read import read_upright
from reconet.errors import RecipeError
from reconet.evaluation import check_classes
from reconet.explain.contexts import explain_maps, explain_ranks
from reconet.explain.draw import Panel, panel_grid
from reconet.inference import find_network, whole_image
from reconet.models.context.base import Point
from reconet.models.layers import resize
from reconet.models.trained import NetworkInfo, TrainedNetwork, load_trained
from reconet.report import html_page, png_source
from reconet.system.distributed import pick_device
from reconet.system.files import check_output_folder, check_stays, write_bytes, write_text
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted
from reconet.types import Colour, Image, Label

PAGE = "explain.html"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What was written where, and the numbers in it."""

    directory: Path
    findings: tuple[str, ...]  # lines for a terminal
    values: dict[str, Any]


def explain_image(
    source: str | Path,
    image: str,
    *,
    ranks: str | None = None,
    point: Point | None = None,
    out: Path | None = None,
    root: Path | None = None,
    device: str = "auto",
    progress: Progress = SILENT,
) -> Explanation:
    """Look into a network at one image, and write figures and a page about it.

    `source` is a path or name of a network. `image` is a file, or SPLIT:NUMBER or SPLIT:NAME of
    its dataset. `ranks` is how many ranks of largest lambda to show (by default 4), or a list of
    ranks; "7," is rank 7. Contexts that compare positions look from `point`, x and y as parts of
    width and height.
    """
    network = find_network(source, progress=progress)
    folder = network.home("explain")
    if out is None:
        check_output_folder(folder)
    else:
        check_output_folder(out, lambda folder: (folder / PAGE).is_file())
    trained = load_trained(network.path)
    info, context = trained.info, trained.info.recipe.model.short_name
    has_ranks = trained.model.context.low_rank_head() is not None
    if has_ranks and point is not None:
        raise RecipeError(f"--point is for other contexts; {context} has ranks (--ranks).")
    if not has_ranks and ranks is not None:
        raise RecipeError(f"--ranks is for contexts with ranks; {context} has none.")
    name, image_hwc, label_hw = _find_image(image, trained, root)
    model = trained.model.to(pick_device(device))
    image_bchw = whole_image(image_hwc, info.recipe.data.base_size).to(model.mean_c11.device)
    with torch.no_grad():
        logits_bkhw = resize(model.coarse(image_bchw), (image_hwc.shape[0], image_hwc.shape[1]))
    predicted_hw = logits_bkhw.argmax(1)[0].byte().cpu().numpy()
    truth = {} if label_hw is None else {"truth": label_hw}
    drawn = {
        what: overlay(image_hwc, m, info.palette, info.classes)
        for what, m in (truth | {"prediction": predicted_hw}).items()
    }
    panels = [Panel("image", image_hwc), *(Panel(what, one) for what, one in drawn.items())]
    if has_ranks:
        content = explain_ranks(model, image_bchw, panels, info.classes, ranks)
    else:
        content = explain_maps(model, context, image_bchw, panels, info.classes, point)
    legend = _legend(info, [*truth.values(), predicted_hw])
    figures = {"figure.png": panel_grid(content.panels, predicted_hw.shape, legend)}
    figures |= content.figures
    right = None if label_hw is None else _accuracy(label_hw, predicted_hw, len(info.classes))
    # The name of an image, which may have slashes, becomes the name of one folder.
    own = re.sub(r"[^\w.-]+", "_", name).strip("._") or "image"
    directory = out or check_stays(folder / own, folder)
    options = ["--ranks", ranks] if ranks is not None else []
    if point is not None:
        options += ["--point", "{:g},{:g}".format(*point)]
    text = html_page(
        "explain.html",
        kind="explain",
        title=name,
        model=info.recipe.model.title,
        data=info.recipe.data.title,
        steps=counted(info.step, "step"),
        size=tuple(image_bchw.shape[:1:-1]),
        right=right,
        figures={file: png_source(png) for file, png in figures.items()},
        command=shlex.join(["reconet", "explain", str(network), image, *options]),
        **content.shown,
    )
    write_text(directory / PAGE, text)  # first: a folder left half written can be written again
    for file, png in figures.items():
        write_bytes(directory / file, png)
    return Explanation(
        directory=directory,
        findings=(_prediction_line(info, predicted_hw, right), content.finding),
        values={"image": name, "context": context, "right": right} | content.values,
    )


def _accuracy(label_hw: Label, predicted_hw: Label, classes: int) -> float | None:
    """Return the part of the labelled pixels that is right, or None if none has a label."""
    labelled_hw = label_hw < classes
    if not labelled_hw.any():
        return None
    return float(np.mean(predicted_hw[labelled_hw] == label_hw[labelled_hw]))


def _legend(info: NetworkInfo, maps: Sequence[Label]) -> list[tuple[str, Colour]]:
    """List the classes that are drawn of labels and prediction, with their colours."""
    present = set(np.unique(np.concatenate([one.ravel() for one in maps])).tolist())
    names = zip(info.classes, photograph_palette(info.palette), strict=True)
    return [(n, c) for k, (n, c) in enumerate(names) if k in present and any(c)]


def _prediction_line(info: NetworkInfo, predicted_hw: Label, right: float | None) -> str:
    """Name the three classes with most pixels, and how much is right, in one line."""
    number_n, count_n = np.unique(predicted_hw, return_counts=True)
    parts = [
        f"{info.classes[number_n[one]]} {100 * count_n[one] / predicted_hw.size:.0f} %"
        for one in np.argsort(-count_n, kind="stable")[:3]
    ]
    end = "" if right is None else f"; {100 * right:.1f} % of the labelled pixels are right"
    return f"predicts {', '.join(parts)}{end}"


def _find_image(
    image: str, trained: TrainedNetwork, root: Path | None
) -> tuple[str, Image, Label | None]:
    """Read a file, or SPLIT:NUMBER or SPLIT:NAME of the dataset that the network was trained on."""
    path = Path(image).expanduser()
    split, colon, which = image.partition(":")
    if path.exists() or not colon:
        return path.stem or path.name, read_upright(path).image_hwc, None
    dataset = open_split(trained.info.recipe.data, split, root)
    check_classes(trained.info.classes, dataset, "the network")
    sample = dataset[_index(dataset, which)]
    return sample.name, sample.image_hwc, sample.label_hw if has_labels(dataset) else None


def _index(dataset: Dataset, which: str) -> int:
    if which.isdecimal() and len(which) < 20 and int(which) < len(dataset):
        return int(which)
    for index in range(len(dataset)):
        if dataset.name(index) == which:
            return index
    raise RecipeError(
        f"{title_of(dataset)} has no image {which!r}: they are 0 to {len(dataset) - 1}, or named "
        f"as {dataset.name(0)!r}."
    )


def parse_point(text: str) -> Point:
    """Parse "0.25,0.6": x from the left and y from the top, as parts of width and height."""
    try:
        x, y = (float(part) for part in text.split(","))
    except ValueError as error:
        raise RecipeError(f"--point takes x,y such as 0.25,0.6, got {text!r}.") from error
    if not all(math.isfinite(part) and 0 <= part <= 1 for part in (x, y)):
        raise RecipeError(f"--point takes parts of width and height, 0 to 1, got {text!r}.")
    return x, y
