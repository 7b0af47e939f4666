"""Explain one image: load the network, look into it, write figures and a page."""

import math
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from reconet.data import open_split
from reconet.data.dataset import Dataset, has_labels
from reconet.data.images.draw import VOID_COLOUR, colourise
from reconet.data.images.read import read_upright
from reconet.errors import RecipeError
from reconet.evaluation import check_classes
from reconet.explain import draw
from reconet.explain.compute import (
    RankAnalysis,
    attention_maps,
    choose_ranks,
    measure_ranks,
    rank_rows,
    strongest_rows,
    value_range,
)
from reconet.explain.draw import Panel
from reconet.inference import find_network
from reconet.inference.windows import whole_image
from reconet.models.context.attention_maps import Point
from reconet.models.decompose import decompose
from reconet.models.layers import resize
from reconet.models.trained import TrainedNetwork, load_trained
from reconet.report.html import html_page, png_source
from reconet.system.distributed import pick_device
from reconet.system.files import check_output_folder, check_stays, write_bytes, write_text
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted
from reconet.types import Colour, Image, Label

PAGE = "explain.html"
DEFAULT_RANKS = 4  # or all, if there are fewer
RANKS_PER_ROW, PANELS_PER_ROW = 4, 6
CONSTANT = 0.1  # spread of the tensor below which the page calls it nearly constant


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What was written where, and the numbers in it."""

    directory: Path
    findings: tuple[str, ...]  # lines for a terminal
    values: dict[str, Any]


class Content(NamedTuple):
    """Figures by file name, plain values, what the page shows, and a line for a terminal."""

    figures: dict[str, bytes]
    values: dict[str, Any]
    shown: dict[str, Any]
    finding: str


@dataclass(frozen=True, kw_only=True, eq=False)
class ExplainedImage:
    """An image, its labels, and what a network predicts in one whole view of it."""

    trained: TrainedNetwork
    name: str
    image_hwc: Image
    label_hw: Label | None
    input_bchw: Tensor
    predicted_hw: Label

    def accuracy(self) -> float | None:
        """Return the part of the labelled pixels that is right, or None if none has a label."""
        label_hw, classes = self.label_hw, len(self.trained.info.classes)
        if label_hw is None or not (label_hw < classes).any():
            return None
        labelled_hw = label_hw < classes
        return float(np.mean(self.predicted_hw[labelled_hw] == label_hw[labelled_hw]))

    def legend(self) -> list[tuple[str, Colour]]:
        """List the classes in labels and prediction, with their colours."""
        maps = [one for one in (self.predicted_hw, self.label_hw) if one is not None]
        present = np.unique(np.concatenate([one.ravel() for one in maps]))
        names = list(zip(self.trained.info.classes, self.trained.info.palette, strict=True))
        void = [("void", VOID_COLOUR)] if (present >= len(names)).any() else []
        return [names[number] for number in present if number < len(names)] + void

    def label_panels(self) -> list[Panel]:
        """Draw the labels, if there are any, and the prediction."""
        maps = {"truth": self.label_hw, "prediction": self.predicted_hw}
        palette = self.trained.info.palette
        return [Panel(n, colourise(m, palette)) for n, m in maps.items() if m is not None]

    def prediction_line(self) -> str:
        """Name the three classes with most pixels, and how much is right, in one line."""
        number_n, count_n = np.unique(self.predicted_hw, return_counts=True)
        order = np.argsort(-count_n, kind="stable")[:3]
        classes, pixels = self.trained.info.classes, self.predicted_hw.size
        parts = [f"{classes[number_n[one]]} {100 * count_n[one] / pixels:.0f} %" for one in order]
        right = self.accuracy()
        end = "" if right is None else f"; {100 * right:.1f} % of the labelled pixels are right"
        return f"predicts {', '.join(parts)}{end}"


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
    if has_ranks and point is not None:
        raise RecipeError(f"--point is for other contexts; {context} has ranks (--ranks).")
    if not has_ranks and ranks is not None:
        raise RecipeError(f"--ranks is for contexts with ranks; {context} has none.")
    explained = _predict(trained, image, root, pick_device(device))
    content = _explain_ranks(explained, ranks) if has_ranks else _explain_maps(explained, point)
    # The name of an image, which may have slashes, becomes the name of one folder.
    own = re.sub(r"[^\w.-]+", "_", explained.name).strip("._") or "image"
    directory = out or check_stays(folder / own, folder)
    options = ["--ranks", ranks] if ranks is not None else []
    if point is not None:
        options += ["--point", "{:g},{:g}".format(*point)]
    text = html_page(
        "explain.html",
        kind="explain",
        title=explained.name,
        model=trained.info.recipe.model.title,
        data=trained.info.recipe.data.title,
        steps=counted(trained.info.step, "step"),
        size=tuple(explained.input_bchw.shape[:1:-1]),
        right=explained.accuracy(),
        figures={name: png_source(png) for name, png in content.figures.items()},
        command=shlex.join(["reconet", "explain", str(network), image, *options]),
        **content.shown,
    )
    write_text(directory / PAGE, text)  # first: a folder left half written can be written again
    for name, png in content.figures.items():
        write_bytes(directory / name, png)
    head = {"image": explained.name, "context": context, "right": explained.accuracy()}
    return Explanation(
        directory=directory,
        findings=(explained.prediction_line(), content.finding),
        values=head | content.values,
    )


def _predict(
    trained: TrainedNetwork, image: str, root: Path | None, device: torch.device
) -> ExplainedImage:
    name, image_hwc, label_hw = _find_image(image, trained, root)
    model = trained.model.to(device)
    input_bchw = whole_image(image_hwc, trained.info.recipe.data.base_size).to(device)
    with torch.no_grad():
        logits_bkhw = resize(model.coarse(input_bchw), (image_hwc.shape[0], image_hwc.shape[1]))
    return ExplainedImage(
        trained=trained,
        name=name,
        image_hwc=image_hwc,
        label_hw=label_hw,
        input_bchw=input_bchw,
        predicted_hw=logits_bkhw.argmax(1)[0].byte().cpu().numpy(),
    )


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
    what = f"{dataset.info.name} {dataset.split}"
    if which.isdecimal() and len(which) < 20 and int(which) < len(dataset):
        return int(which)
    for index in range(len(dataset)):
        if dataset.name(index) == which:
            return index
    raise RecipeError(
        f"{what} has no image {which!r}: they are 0 to {len(dataset) - 1}, or named as "
        f"{dataset.name(0)!r}."
    )


def _explain_ranks(explained: ExplainedImage, ranks: str | None) -> Content:
    classes = explained.trained.info.classes
    parts = decompose(explained.trained.model, explained.input_bchw)
    weight_r, words = parts.factors.weight_r, parts.core.words
    ranks = ranks or str(min(DEFAULT_RANKS, len(weight_r)))
    analysis = measure_ranks(parts, choose_ranks(weight_r, ranks))
    alive, count = analysis.liveness, len(weight_r)
    figures = {
        "figure.png": draw.panel_grid(
            _rank_panels(explained, analysis), explained.predicted_hw.shape, explained.legend()
        ),
        "contributions.png": draw.contributions(analysis.contributions.logit_rk, classes),
        "fragments.png": draw.factors(parts),
    }
    tiles = [
        (count, "ranks"),
        (analysis.carried()["norm"]["90"], "ranks carry 90 % of the norms"),
        (f"{100 * alive.attention_spread:.1f} %", f"spread of the {words.name} around its mean"),
        (f"{alive.effective_rank:.2f}", f"effective rank of the {words.name}"),
        (f"{100 * alive.lambda_spread:.2g} %", "spread of lambda around its mean"),
    ]
    rows = rank_rows(analysis, classes)
    shown = {
        "words": words,
        "tiles": tiles,
        "constant": alive.attention_spread < CONSTANT,
        "rank_head": list(rows[0]),
        "ranks": [list(row.values()) for row in rows],
        "strongest": strongest_rows(analysis, classes),
    }
    finding = (
        f"{words.name} varies by {100 * alive.attention_spread:.1f} % around its mean, "
        f"effective rank {alive.effective_rank:.2f}; lambda varies by "
        f"{100 * alive.lambda_spread:.2g} % over {counted(count, 'rank')}"
    )
    return Content(figures, analysis.as_dict(classes), shown, finding)


def _rank_panels(explained: ExplainedImage, analysis: RankAnalysis) -> list[list[Panel | None]]:
    """Arrange two rows for every few ranks, with the image at left.

    Above is where the rank looked, or A_i * X if it looks everywhere. Below is A_i or Y_i.
    """
    parts, words = analysis.parts, analysis.parts.core.words
    labels = explained.label_panels()
    mean_x = Panel("X, mean over channels", parts.x_bchw[0].mean(0))
    tensor = Panel(f"{words.symbol}, mean over channels", parts.tensor()[0].mean(0))
    left: list[list[Panel | None]] = [
        [Panel("image", explained.image_hwc), labels[0]],
        [mean_x, labels[1] if len(labels) > 1 else tensor],
    ]
    rows: list[list[Panel | None]] = []
    for start in range(0, len(analysis.shown), RANKS_PER_ROW):
        some = analysis.shown[start : start + RANKS_PER_ROW]
        above = [Panel(words.above.format(one.values["rank"]), one.upper_hw) for one in some]
        below = [Panel(words.below.format(one.values["rank"]), one.tensor_hw) for one in some]
        rows += [[*left[0], *above], [*left[1], *below]]
        left = [[None, None], [None, None]]
    return rows


def _explain_maps(explained: ExplainedImage, point: Point | None) -> Content:
    trained, context = explained.trained, explained.trained.info.recipe.model.short_name
    at = point or (0.5, 0.5)
    found = attention_maps(trained.model, context, explained.input_bchw, at, trained.info.classes)
    if point is not None and not found.from_point:
        raise RecipeError(f"--point: {context} does not look from a point.")
    mark = at if found.from_point else None
    panels = [Panel("image", explained.image_hwc, mark), *explained.label_panels()]
    panels += [Panel(name, map_hw, mark) for name, map_hw in found.maps]
    rows = [
        panels[start : start + PANELS_PER_ROW] for start in range(0, len(panels), PANELS_PER_ROW)
    ]
    figures = {
        "figure.png": draw.panel_grid(rows, explained.predicted_hw.shape, explained.legend())
    }
    if found.gates:
        figures["gates.png"] = draw.bars(found.gates)
    ranges = [(name, *value_range(values)) for name, values in (*found.maps, *found.gates)]
    values: dict[str, Any] = {
        "maps": [{"name": name, "least": low, "most": high} for name, low, high in ranges]
    }
    if found.from_point:
        values["point"] = list(at)
    finding = "; ".join(f"{name} {low:.3g} to {high:.3g}" for name, low, high in ranges)
    texts = [(name, f"{low:.3g}", f"{high:.3g}") for name, low, high in ranges]
    return Content(figures, values, {"about": found.description, "ranges": texts}, finding)


def parse_point(text: str) -> Point:
    """Parse "0.25,0.6": x from the left and y from the top, as parts of width and height."""
    try:
        x, y = (float(part) for part in text.split(","))
    except ValueError as error:
        raise RecipeError(f"--point takes x,y such as 0.25,0.6, got {text!r}.") from error
    if not all(math.isfinite(part) and 0 <= part <= 1 for part in (x, y)):
        raise RecipeError(f"--point takes parts of width and height, 0 to 1, got {text!r}.")
    return x, y
