"""Explain one image: load the network, look into it, write figures and a page."""

import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from reconet.errors import RecipeError
from reconet.explain import draw, page
from reconet.explain.attention import attention_maps
from reconet.explain.draw import Panel
from reconet.explain.explained_image import ExplainedImage, describe, label_panels, prediction_line
from reconet.explain.ranks import (
    RankAnalysis,
    choose_ranks,
    liveness_line,
    measure_ranks,
    value_range,
)
from reconet.explain.source import SourceImage, find_image, folder_name
from reconet.inference import find_network
from reconet.inference.windows import whole_image
from reconet.models.context.attention_maps import Point
from reconet.models.decompose import decompose
from reconet.models.layers import resize
from reconet.models.trained import TrainedNetwork, load_trained
from reconet.report.html import Markup
from reconet.system.distributed import pick_device
from reconet.system.files import check_output_folder, check_stays, write_bytes, write_text
from reconet.system.progress import SILENT, Progress

PAGE = "explain.html"
DEFAULT_RANKS = 4  # or all, if there are fewer
RANKS_PER_ROW = (4, 5, 3)  # the first of these that leaves fewest gaps
PANELS_PER_ROW = 6


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What was written where, and the numbers in it."""

    directory: Path
    findings: tuple[str, ...]  # lines for a terminal
    values: dict[str, Any]


class Content(NamedTuple):
    """Figures by file name, plain values, the parts of the page, and a line for a terminal."""

    figures: dict[str, bytes]
    values: dict[str, Any]
    parts: list[Markup]
    finding: str


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
    context = trained.info.recipe.model.short_name
    has_ranks = trained.model.context.low_rank_head() is not None
    _check_options(context, has_ranks, ranks, point)
    shown = find_image(image, trained.info.recipe, trained.info.classes, root)
    explained = _predict(trained, shown, pick_device(device))
    content = _explain_ranks(explained, ranks) if has_ranks else _explain_maps(explained, point)
    directory = out or check_stays(folder / folder_name(shown.name), folder)
    command = _command(str(network), image, ranks, point)
    text = page.frame(shown.name, describe(explained), content.parts, command)
    write_text(directory / PAGE, text)  # first: a folder left half written can be written again
    for name, png in content.figures.items():
        write_bytes(directory / name, png)
    return Explanation(
        directory=directory,
        findings=(prediction_line(explained), content.finding),
        values={"image": shown.name, "context": context, "right": explained.accuracy()}
        | content.values,
    )


def _check_options(context: str, has_ranks: bool, ranks: str | None, point: Point | None) -> None:
    if has_ranks and point is not None:
        raise RecipeError(
            f"--point is for contexts that compare positions; {context} has ranks (--ranks)."
        )
    if not has_ranks and ranks is not None:
        raise RecipeError(
            f"--ranks is for contexts with ranks; this network, with context {context}, has none."
        )


def _predict(trained: TrainedNetwork, source: SourceImage, device: torch.device) -> ExplainedImage:
    model = trained.model.to(device)
    input_bchw = whole_image(source.image_hwc, trained.info.recipe.data.base_size).to(device)
    size = (source.image_hwc.shape[0], source.image_hwc.shape[1])
    with torch.no_grad():
        label_hw = resize(model.coarse(input_bchw), size).argmax(1)[0].byte().cpu().numpy()
    return ExplainedImage(
        trained=trained, source=source, input_bchw=input_bchw, predicted_hw=label_hw
    )


def _explain_ranks(explained: ExplainedImage, ranks: str | None) -> Content:
    classes = explained.trained.info.classes
    parts = decompose(explained.trained.model, explained.input_bchw)
    weight_r = parts.factors.weight_r
    ranks = ranks or str(min(DEFAULT_RANKS, len(weight_r)))
    analysis = measure_ranks(parts, choose_ranks(weight_r, ranks))
    panels = _rank_panels(explained, analysis)
    figures = {
        "figure.png": draw.panel_grid(panels, explained.shape, explained.legend()),
        "fragments.png": draw.fragments(analysis),
        "spectrum.png": draw.spectrum(analysis),
        "contributions.png": draw.contributions(analysis.contributions.logit_rk, classes),
    }
    return Content(
        figures,
        analysis.as_dict(classes),
        page.about_ranks(analysis, classes, figures),
        liveness_line(analysis),
    )


def _rank_panels(explained: ExplainedImage, analysis: RankAnalysis) -> list[list[Panel | None]]:
    """Arrange two rows for every few ranks, with the image at left.

    Above is where the rank looked, or A_i * X if it looks everywhere. Below is A_i or Y_i.
    """
    words = analysis.words
    labels = label_panels(explained)
    image = Panel("image", explained.source.image_hwc)
    mean_x = Panel("X, mean over channels", analysis.mean_x_hw)
    tensor = Panel(f"{words.symbol}, mean over channels", analysis.mean_tensor_hw)
    rows: list[list[Panel | None]] = []
    step = ranks_per_row(len(analysis.shown))
    for start in range(0, len(analysis.shown), step):
        some = analysis.shown[start : start + step]
        left: list[list[Panel | None]] = [[None, None], [None, None]]
        if start == 0:
            left = [[image, labels[0]], [mean_x, labels[1] if len(labels) > 1 else tensor]]
        above = [Panel(words.above.format(one.rank), one.upper_hw()) for one in some]
        below = [Panel(words.below.format(one.rank), one.tensor_hw) for one in some]
        rows += [[*left[0], *above], [*left[1], *below]]
    return rows


def ranks_per_row(count: int) -> int:
    """Choose how many of `count` ranks stand in one row, so that the last row has few gaps."""
    if count <= max(RANKS_PER_ROW):
        return count
    return min(RANKS_PER_ROW, key=lambda per_row: -count % per_row)


def _explain_maps(explained: ExplainedImage, point: Point | None) -> Content:
    trained, context = explained.trained, explained.trained.info.recipe.model.short_name
    at = point or (0.5, 0.5)
    found = attention_maps(trained.model, context, explained.input_bchw, at, trained.info.classes)
    if point is not None and not found.from_point:
        raise RecipeError(f"--point: {context} does not look from a point.")
    mark = at if found.from_point else None
    panels = [Panel("image", explained.source.image_hwc, mark), *label_panels(explained)]
    panels += [Panel(name, map_hw, mark) for name, map_hw in found.maps]
    rows = [
        panels[start : start + PANELS_PER_ROW] for start in range(0, len(panels), PANELS_PER_ROW)
    ]
    figures = {"figure.png": draw.panel_grid(rows, explained.shape, explained.legend())}
    if found.gates:
        figures["gates.png"] = draw.bars(
            [(name, gate_n.cpu().numpy()) for name, gate_n in found.gates]
        )
    ranges = [(name, *value_range(values)) for name, values in (*found.maps, *found.gates)]
    values: dict[str, Any] = {
        "maps": [{"name": name, "least": low, "most": high} for name, low, high in ranges]
    }
    if found.from_point:
        values["point"] = list(at)
    finding = "; ".join(f"{name} {low:.3g} to {high:.3g}" for name, low, high in ranges)
    return Content(figures, values, page.about_maps(figures, ranges, found.description), finding)


def _command(network: str, image: str, ranks: str | None, point: Point | None) -> str:
    options = ["--ranks", ranks] if ranks is not None else []
    if point is not None:
        options += ["--point", "{:g},{:g}".format(*point)]
    return shlex.join(["reconet", "explain", network, image, *options])


def parse_point(text: str) -> Point:
    """Parse "0.25,0.6": x from the left and y from the top, as parts of width and height."""
    try:
        x, y = (float(part) for part in text.split(","))
    except ValueError as error:
        raise RecipeError(f"--point takes x,y such as 0.25,0.6, got {text!r}.") from error
    if not all(math.isfinite(part) and 0 <= part <= 1 for part in (x, y)):
        raise RecipeError(f"--point takes parts of width and height, 0 to 1, got {text!r}.")
    return x, y
