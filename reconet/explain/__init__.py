"""What a network looks at in one image: figures and one HTML page.

source.py   the image: a file, or one of the dataset with its truth
scene.py    the image with what the network says of it              pure
ranks.py    what each rank of a RecoNet is and does, in numbers      pure
other.py    the attention that other contexts have                    pure
draw.py     figures                                                   pure: values in, PNG out
page.py     the page                                                  pure: values in, markup out
"""

import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from reconet.errors import RecipeError
from reconet.explain import draw, other, page, ranks, source
from reconet.explain.scene import Scene, answer, labels, lead
from reconet.inference.windows import whole_image
from reconet.models.context.reconet import RecoNet
from reconet.models.decompose import look_inside, reconstruction
from reconet.models.layers import resize
from reconet.models.trained import TrainedNetwork, load_trained
from reconet.report.markup import Markup
from reconet.system.distributed import pick_device
from reconet.system.files import check_folder, write_bytes, write_text

PAGE = "explain.html"
MOST_RANKS = 4  # by default
BANDS = (4, 5, 3)  # ranks side by side in a figure: the first of these that leaves fewest gaps


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What was written where, and the numbers in it."""

    directory: Path
    findings: tuple[str, ...]  # lines for a terminal
    values: dict[str, Any]


def explain_image(
    run: Path,
    image: str,
    *,
    ranks: str | None = None,
    point: tuple[float, float] | None = None,
    out: Path | None = None,
    root: Path | None = None,
    device: str = "auto",
) -> Explanation:
    """Look into the network of a run at one image, and write figures and a page about it.

    `image` is a file, or SPLIT:NUMBER or SPLIT:NAME of the run's dataset. `ranks` is a number,
    the ranks of largest lambda (by default 4), or a list of ranks; "7," is rank 7. `point`, x and
    y as parts of width and height, is where contexts that compare positions look from.
    """
    run_directory = run if run.is_dir() else run.parent
    if out is None:
        check_folder(run_directory / "explain")
    else:
        check_folder(out, is_explanation)
    trained = load_trained(run)
    with_ranks = isinstance(trained.model.context, RecoNet)
    _check_options(trained.info.recipe.model.context, with_ranks, ranks, point)
    found = source.find(image, trained.info.recipe, trained.info.classes, root)
    scene = _asked(trained, found, pick_device(device))
    figures, values, parts, findings = (
        _ranks(scene, ranks or str(MOST_RANKS)) if with_ranks else _other(scene, point)
    )
    directory = out or run_directory / "explain" / source.folder_name(found.name)
    text = page.frame(found.name, lead(scene), parts, _command(run, image, ranks, point))
    write_text(directory / PAGE, text)  # first: a folder left half written can be written again
    for name, png in figures.items():
        write_bytes(directory / name, png)
    return Explanation(
        directory=directory,
        findings=(answer(scene), findings),
        values={"image": found.name, "context": trained.info.recipe.model.context}
        | {"right": scene.right()}
        | values,
    )


def _asked(trained: TrainedNetwork, found: source.Source, device: torch.device) -> Scene:
    """What the network says of an image."""
    model = trained.model.to(device)
    seen_bchw = whole_image(found.image_hwc, trained.info.recipe).to(device)
    size = (found.image_hwc.shape[0], found.image_hwc.shape[1])
    with torch.no_grad():
        said_hw = resize(model.coarse(seen_bchw), size).argmax(1)[0].byte().cpu().numpy()
    return Scene(trained=trained, source=found, seen_bchw=seen_bchw, said_hw=said_hw)


def _command(run: Path, image: str, ranks: str | None, point: tuple[float, float] | None) -> str:
    """That makes the same page again."""
    options = ["--ranks", ranks] if ranks is not None else []
    if point is not None:
        options += ["--point", "{:g},{:g}".format(*point)]
    return shlex.join(["reconet", "explain", str(run), image, *options])


def _check_options(
    context: str, with_ranks: bool, ranks: str | None, point: tuple[float, float] | None
) -> None:
    if with_ranks and point is not None:
        raise RecipeError(
            f"--point is for contexts that compare positions; {context} has ranks (--ranks)."
        )
    if not with_ranks and ranks is not None:
        raise RecipeError(f"--ranks is for reconet; a network with context {context} has none.")


def is_explanation(folder: Path) -> bool:
    return (folder / PAGE).is_file()


Parts = tuple[dict[str, bytes], dict[str, Any], list[Markup], str]


def _ranks(scene: Scene, text: str) -> Parts:
    model, classes = scene.trained.model, scene.trained.info.classes
    reconstruction(model)  # or an error that says why there are no ranks
    inside = look_inside(model, scene.seen_bchw)
    anatomy = ranks.anatomy(inside, ranks.chosen(inside.factors.weight_r, text))
    figures = {
        "figure.png": draw.grid(_rank_cells(scene, anatomy), scene.shape, scene.key()),
        "fragments.png": draw.fragments(anatomy),
        "spectrum.png": draw.spectrum(anatomy),
        "contributions.png": draw.contributions(anatomy.contributions.logit_rk, classes),
    }
    parts = page.about_ranks(anatomy, classes, figures)
    return figures, anatomy.as_dict(classes), parts, ranks.in_a_line(anatomy)


def _rank_cells(scene: Scene, anatomy: ranks.Anatomy) -> list[list[draw.Cell | None]]:
    """Two lines for every few ranks: A_i * X, and A_i below it; the image at their left."""
    said = labels(scene)
    image = draw.Cell("image", scene.source.image_hwc)
    mean_x = draw.Cell("X, mean over channels", anatomy.mean_x_hw)
    whole = draw.Cell("A, mean over channels", anatomy.mean_attention_hw)
    lines: list[list[draw.Cell | None]] = []
    band = side_by_side(len(anatomy.shown))
    for start in range(0, len(anatomy.shown), band):
        some = anatomy.shown[start : start + band]
        left: list[list[draw.Cell | None]] = [[None, None], [None, None]]
        if start == 0:
            left = [[image, said[0]], [mean_x, said[1] if len(said) > 1 else whole]]
        above = [draw.Cell(f"A_{one.rank} * X", one.heat_hw) for one in some]
        below = [draw.Cell(f"A_{one.rank}", one.attention_hw) for one in some]
        lines += [[*left[0], *above], [*left[1], *below]]
    return lines


def side_by_side(count: int) -> int:
    """How many of so many ranks stand in one band, so that few places of the last stay empty."""
    return count if count <= max(BANDS) else min(BANDS, key=lambda band: -count % band)


def _other(scene: Scene, point: tuple[float, float] | None) -> Parts:
    trained = scene.trained
    at = point or (0.5, 0.5)
    look = other.look(
        trained.model, trained.info.recipe.model.context, scene.seen_bchw, at, trained.info.classes
    )
    if point is not None and not look.from_point:
        raise RecipeError(
            f"--point: {trained.info.recipe.model.context} does not look from a point."
        )
    mark = at if look.from_point else None
    cells = [draw.Cell("image", scene.source.image_hwc, mark), *labels(scene)]
    cells += [draw.Cell(name, map_hw, mark) for name, map_hw in look.maps]
    figures = {"figure.png": _grid(scene, cells)}
    gates = [(name, gate_n.cpu().numpy()) for name, gate_n in look.gates]
    if gates:
        figures["gates.png"] = draw.bars(gates)
    ranges = [(name, *ranks.extent(values)) for name, values in (*look.maps, *look.gates)]
    values: dict[str, Any] = {
        "maps": [{"name": name, "least": low, "most": high} for name, low, high in ranges]
    }
    if look.from_point:
        values["point"] = list(at)
    line = "; ".join(f"{name} {low:.3g} to {high:.3g}" for name, low, high in ranges)
    return figures, values, page.about_maps(figures, ranges, look.words), line


def _grid(scene: Scene, cells: list[draw.Cell]) -> bytes:
    return draw.grid([*draw.in_rows(cells, min(6, len(cells)))], scene.shape, scene.key())


def parse_point(text: str) -> tuple[float, float]:
    """ "0.25,0.6": x from the left and y from the top, as parts of width and height."""
    try:
        x, y = (float(part) for part in text.split(","))
    except ValueError as error:
        raise RecipeError(f"--point takes x,y such as 0.25,0.6, got {text!r}.") from error
    if not all(math.isfinite(part) and 0 <= part <= 1 for part in (x, y)):
        raise RecipeError(f"--point takes parts of width and height, 0 to 1, got {text!r}.")
    return x, y
