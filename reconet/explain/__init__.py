"""What a network looks at in one picture: figures and one HTML page.

source.py   the picture: a file, or one of the dataset with its truth
ranks.py    what each rank of a RecoNet is and does, in numbers      pure
other.py    the attention that other contexts have                    pure
draw.py     figures                                                   pure: values in, PNG out
page.py     the page                                                  pure: values in, markup out
"""

import math
import shlex
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reconet.data.dataset import Image, Label
from reconet.data.draw import colourise
from reconet.errors import RecipeError
from reconet.explain import draw, other, page, ranks, source
from reconet.files import write_atomic, write_text
from reconet.inside import look_inside, reconstruction
from reconet.models.context.reconet import RecoNet
from reconet.models.layers import resize
from reconet.models.trained import Trained, load_trained
from reconet.report.markup import Markup
from reconet.world import pick_device

PAGE = "explain.html"
BAND = 4  # ranks side by side in a figure


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What was written where, and the numbers in it."""

    directory: Path
    figures: tuple[str, ...]
    values: dict[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """The picture with what is true of it and what the network says to this one view of it."""

    trained: Trained
    source: source.Source
    seen_bchw: Tensor
    said_hw: Label

    @property
    def shape(self) -> tuple[int, int]:
        return self.said_hw.shape[0], self.said_hw.shape[1]

    def coloured(self, label_hw: Label) -> Image:
        return colourise(label_hw, self.trained.palette)


def explain_picture(
    run: Path,
    picture: str,
    *,
    ranks: str = "4",
    point: tuple[float, float] | None = None,
    out: Path | None = None,
    root: Path | None = None,
    device: str = "auto",
) -> Explanation:
    """Look into the network of a run at one picture, and write figures and a page about it.

    `picture` is a file, or SPLIT:NUMBER or SPLIT:NAME of the run's dataset. `ranks` is a number,
    the ranks of largest lambda, or a list of ranks. `point`, x and y as parts of width and height,
    is where contexts that compare positions look from.
    """
    trained = load_trained(run)
    model = trained.model.to(pick_device(device))
    found = source.find(picture, trained.recipe, trained.classes, root)
    seen_bchw = source.shown(found.image_hwc, trained.recipe).to(pick_device(device))
    with torch.no_grad():
        said_bkij = model.coarse(seen_bchw)
        size = (found.image_hwc.shape[0], found.image_hwc.shape[1])
        said_hw = resize(said_bkij, size).argmax(1)[0].byte().cpu().numpy()
    scene = Scene(trained=trained, source=found, seen_bchw=seen_bchw, said_hw=said_hw)
    with_ranks = isinstance(model.context, RecoNet)
    if with_ranks:
        figures, values, parts = _ranks(scene, ranks)
    else:
        figures, values, parts = _other(scene, point)
    run_directory = run if run.is_dir() else run.parent
    directory = out or run_directory / "explain" / source.folder_name(found.name)
    options = ["--ranks", ranks] if with_ranks else []
    if point is not None:
        options += ["--point", "{:g},{:g}".format(*point)]
    command = shlex.join(["reconet", "explain", str(run), picture, *options])
    text = page.frame(found.name, _lead(scene), parts, command)
    for name, png in figures.items():
        write_atomic(directory / name, partial(_write, png=png))
    write_text(directory / PAGE, text)
    return Explanation(
        directory=directory,
        figures=tuple(figures),
        values={"picture": found.name, "context": trained.recipe.model.context} | values,
    )


def _write(file: Any, png: bytes) -> None:
    file.write(png)


def _lead(scene: Scene) -> str:
    recipe, truth_hw = scene.trained.recipe, scene.source.truth_hw
    height, width = scene.seen_bchw.shape[2:]
    right = ""
    if truth_hw is not None and (truth_hw < len(scene.trained.classes)).any():
        labelled_hw = truth_hw < len(scene.trained.classes)
        share = float(np.mean(scene.said_hw[labelled_hw] == truth_hw[labelled_hw]))
        right = f" {100 * share:.1f} % of its labelled pixels are right in this view."
    return (
        f"{recipe.model.context} on {recipe.model.backbone}, trained on {recipe.data.name} for "
        f"{scene.trained.step:,} steps. The picture was shown once and whole, "
        f"{width} x {height} pixels.{right}"
    )


def _labels(scene: Scene) -> list[draw.Cell]:
    """Truth, if there is one, and prediction."""
    cells = [draw.Cell("prediction", scene.coloured(scene.said_hw))]
    if scene.source.truth_hw is not None:
        cells.insert(0, draw.Cell("truth", scene.coloured(scene.source.truth_hw)))
    return cells


Parts = tuple[dict[str, bytes], dict[str, Any], list[Markup]]


def _ranks(scene: Scene, text: str) -> Parts:
    model, classes = scene.trained.model, scene.trained.classes
    reconstruction(model)  # or an error that says why there are no ranks
    inside = look_inside(model, scene.seen_bchw)
    anatomy = ranks.anatomy(inside, ranks.chosen(inside.factors.weight_r, text))
    figures = {
        "figure.png": draw.grid(_rank_cells(scene, anatomy), scene.shape),
        "fragments.png": draw.fragments(anatomy),
        "spectrum.png": draw.spectrum(anatomy),
        "contributions.png": draw.contributions(anatomy.contributions.logit_rk, classes),
    }
    return figures, anatomy.as_dict(classes), page.about_ranks(anatomy, classes, figures)


def _rank_cells(scene: Scene, anatomy: ranks.Anatomy) -> list[list[draw.Cell | None]]:
    """Two lines for every four ranks: A_i * X, and A_i below it; the picture at their left."""
    labels = _labels(scene)
    picture = draw.Cell("picture", scene.source.image_hwc)
    mean_x = draw.Cell("X, mean over channels", anatomy.mean_x_hw)
    whole = draw.Cell("A, mean over channels", anatomy.mean_attention_hw)
    lines: list[list[draw.Cell | None]] = []
    for start in range(0, len(anatomy.shown), BAND):
        some = anatomy.shown[start : start + BAND]
        left: list[list[draw.Cell | None]] = [[None, None], [None, None]]
        if start == 0:
            left = [[picture, labels[0]], [mean_x, labels[1] if len(labels) > 1 else whole]]
        above = [draw.Cell(f"A_{one.rank} * X", one.heat_hw) for one in some]
        below = [draw.Cell(f"A_{one.rank}", one.attention_hw) for one in some]
        lines += [[*left[0], *above], [*left[1], *below]]
    return lines


def _other(scene: Scene, point: tuple[float, float] | None) -> Parts:
    trained = scene.trained
    at = point or (0.5, 0.5)
    look = other.look(
        trained.model, trained.recipe.model.context, scene.seen_bchw, at, trained.classes
    )
    mark = at if look.from_point else None
    cells = [draw.Cell("picture", scene.source.image_hwc, mark), *_labels(scene)]
    cells += [draw.Cell(name, map_hw, mark) for name, map_hw in look.maps]
    figures = {"figure.png": draw.grid([*draw.in_rows(cells, min(6, len(cells)))], scene.shape)}
    gates = [(name, gate_n.cpu().numpy()) for name, gate_n in look.gates]
    if gates:
        figures["gates.png"] = draw.bars(gates)
    ranges = [(name, *ranks.extent(values)) for name, values in (*look.maps, *look.gates)]
    values: dict[str, Any] = {
        "maps": [{"name": name, "least": low, "most": high} for name, low, high in ranges]
    }
    if look.from_point:
        values["point"] = list(at)
    return figures, values, page.about_maps(figures, ranges, look.words)


def parse_point(text: str) -> tuple[float, float]:
    """ "0.25,0.6": x from the left and y from the top, as parts of width and height."""
    try:
        x, y = (float(part) for part in text.split(","))
    except ValueError as error:
        raise RecipeError(f"--point takes x,y such as 0.25,0.6, got {text!r}.") from error
    if not all(math.isfinite(part) and 0 <= part <= 1 for part in (x, y)):
        raise RecipeError(f"--point takes parts of width and height, 0 to 1, got {text!r}.")
    return x, y
