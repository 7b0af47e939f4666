"""Make a network of the package from a run: its compact file, and its model card.

python -m tools.make_pretrained RUN NAME --licence ID --backbone TEXT --data TEXT
    --command TEXT --photos FILE... --credits TEXT [--root DIR] [--set eval.scales=[1.25]]

Writes reconet/pretrained/NAME.safetensors, NAME.md, and NAME.jpg with the photographs and what the
network sees in them. Scores the run and the compact file on the validation split, so the dataset
must be here. If the run started from another one (train.init_from), both are in the card, as long
as the other one is still there.
"""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pillow
from torch import Tensor

from reconet.cli import show_progress
from reconet.data.classes import photograph_palette
from reconet.data.images.draw import fit
from reconet.data.images.sheets import Tile, sheet
from reconet.engine import read_log, read_starts
from reconet.evaluation import Evaluation, evaluate
from reconet.export.share import default_title, model_card
from reconet.inference.network import PRETRAINED
from reconet.inference.predictor import Predictor
from reconet.models import load_trained, save_compact
from reconet.recipes import Recipe, apply_overrides, read_recipe, without_paths
from reconet.study.variants import MULTI_SCALE
from reconet.system.files import readable_bytes, write_atomic, write_text
from reconet.system.progress import Progress
from reconet.system.readable import counted
from reconet.system.run_files import RECIPE
from reconet.types import Image

MOST_ROWS = 25  # of a table of validations
WORST, PAIRS = 5, 8  # classes and confusions that are named as weaknesses
PHOTO_HEIGHT = 260


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One training, as its run directory tells it."""

    recipe: Recipe
    log: Sequence[Mapping[str, Any]]
    starts: Sequence[Mapping[str, Any]]


def make_pretrained(
    run: Path,
    name: str,
    *,
    licence: str,
    backbone: str,
    data: str,
    command: str,
    photos: Sequence[Path],
    credits: str,
    progress: Progress,
    root: Path | None = None,
    settings: Sequence[str] = (),
    folder: Path = PRETRAINED,
) -> Path:
    """Write the compact file and the card of a network, and return the path of the card.

    `settings` change how it shows images to itself, if that is not as in its training.
    """
    trained = load_trained(run)
    recipe = apply_overrides(without_paths(trained.info.recipe), settings)
    trained = replace(trained, info=replace(trained.info, recipe=recipe))
    weights = folder / f"{name}.safetensors"
    save_compact(weights, trained)
    scored = {
        ("single scale", "fp32"): _evaluate(run, settings, root, progress),
        ("single scale", "this file"): _evaluate(weights, (), root, progress),
        ("multi-scale, mirrored", "this file"): _evaluate(weights, MULTI_SCALE, root, progress),
    }
    single = scored["single scale", "this file"]
    several = scored["multi-scale, mirrored", "this file"]
    write_photographs(folder / f"{name}.jpg", Predictor.from_run(weights), photos)
    info = replace(trained.info, score=trained.info.score | single.figures)
    card = model_card(
        replace(trained, info=info),
        default_title(trained),
        licence,
        images=False,
        compact=True,
        example=name,
        protocol=single.protocol,
        results=[
            f"![Photographs, and what the network sees in them]({name}.jpg)",
            credits,
            *score_section(scored, weights.stat().st_size),
            *class_section(single, several),
            *weakness_section(single, trained.info.recipe),
            *training_section(read_stages(run)),
            f"These commands repeat it:\n\n```\n{command}\n```",
            "## Backbone and data",
            backbone,
            data,
        ],
    )
    write_text(folder / f"{name}.md", card)
    return folder / f"{name}.md"


def write_photographs(path: Path, segment: Predictor, photos: Sequence[Path]) -> None:
    """Write one strip of photographs, each beside its overlay, with a legend below."""
    images, found = list[Image](), set[str]()
    for photo in photos:
        prediction = segment(photo)
        found.update(prediction.shares())
        for image_hwc in (prediction.image_hwc, np.asarray(prediction.overlay())):
            images.append(fit(image_hwc, 4 * PHOTO_HEIGHT, PHOTO_HEIGHT))
    colours = zip(segment.classes, photograph_palette(segment.network.info.palette), strict=True)
    legend = [(name, colour) for name, colour in colours if name in found and any(colour)]
    page = Pillow.fromarray(sheet([Tile("", images)], legend, columns=1))
    write_atomic(path, lambda file: page.save(file, format="JPEG", quality=88))


def _evaluate(
    source: Path, settings: Sequence[str], root: Path | None, progress: Progress
) -> Evaluation:
    result = evaluate(
        source,
        root=root,
        change=lambda recipe: apply_overrides(recipe, settings),
        progress=progress,
    )
    assert result is not None  # there is one process
    return result


def read_stages(run: Path) -> list[Stage]:
    """Read a run and the runs that it started from, the first one first."""
    stages: list[Stage] = []
    while (run / RECIPE).is_file() and len(stages) < 9:
        recipe = read_recipe(run / RECIPE)
        stages.append(Stage(recipe=recipe, log=read_log(run), starts=read_starts(run)))
        start = recipe.train.init_from
        if start is None:
            break
        run = start if start.is_dir() else start.parent
    return stages[::-1]


def score_section(scored: Mapping[tuple[str, str], Evaluation], file_bytes: int) -> list[str]:
    """Write the scores of the run and of the compact file, with their protocols."""
    first = next(iter(scored.values()))
    rows = [
        [
            protocol,
            which,
            _percent(result.figures["miou"]),
            _percent(result.figures["pixel_accuracy"]),
        ]
        for (protocol, which), result in scored.items()
    ]
    protocols = {protocol: result.protocol for (protocol, _), result in scored.items()}
    return [
        f"Measured on {first.images} images of {first.dataset} {first.split}, before and after the "
        f"weights were made compact ({readable_bytes(file_bytes)}):",
        _table(["protocol", "weights", "mIoU %", "pixel accuracy %"], rows),
        "\n".join(f"- {protocol}: {text}." for protocol, text in protocols.items()),
    ]


def class_section(single: Evaluation, several: Evaluation) -> list[str]:
    """Write the IoU of each class, by both protocols."""
    rows = [
        [name, _percent(value), _percent(several.iou[name])] for name, value in single.iou.items()
    ]
    return ["## Classes and their IoU", _table(["class", "single scale %", "multi-scale %"], rows)]


def weakness_section(result: Evaluation, recipe: Recipe) -> list[str]:
    """Write what the scores say about weaknesses: the worst classes, and what is taken for what."""
    known = {name: value for name, value in result.iou.items() if value == value}
    worst = sorted(known, key=lambda name: known[name])[:WORST]
    pairs = confused_pairs(result.count_kk, tuple(result.iou))
    rows = [[true, predicted, _percent(share)] for share, true, predicted in pairs[:PAIRS]]
    return [
        "## Known weaknesses",
        "The worst classes are "
        + ", ".join(f"{name} ({_percent(known[name])} % IoU)" for name in worst)
        + ".",
        "What is most often taken for what, as a part of the true class's pixels:",
        _table(["true", "predicted", "%"], rows),
        f"Images are shown with a long side of {recipe.data.base_size} pixels. What is only a few "
        "pixels wide at that size is lost, and borders are coarse.",
    ]


def confused_pairs(count_kk: Tensor, classes: Sequence[str]) -> list[tuple[float, str, str]]:
    """Return (share of the true class's pixels, true class, predicted class), largest first."""
    share_kk = count_kk.double() / count_kk.sum(1, keepdim=True).clamp(min=1)
    return sorted(
        (
            (float(share_kk[i, j]), true, predicted)
            for i, true in enumerate(classes)
            for j, predicted in enumerate(classes)
            if i != j and count_kk[i, j] > 0
        ),
        reverse=True,
    )


def training_section(stages: Sequence[Stage]) -> list[str]:
    """Write how the network was trained: settings, machine, time, interruptions and curve."""
    parts = ["## Training"]
    for number, stage in enumerate(stages, start=1):
        if len(stages) > 1:
            parts.append(f"### Stage {number}")
        parts += [_describe(stage), *_curve(stage)]
    return parts


def _describe(stage: Stage) -> str:
    recipe = stage.recipe
    last = max((line["step"] for line in stage.log), default=0)
    machines = sorted({f"{line['processor']}, torch {line['torch']}" for line in stage.starts})
    resumed = [line["step"] for line in stage.starts if line["step"] > 0]
    hours = training_hours(stage.log, recipe.train.batch)
    frozen = "The backbone was frozen. " if recipe.model.frozen else ""
    extended = "".join(
        f"Planned with {line['steps_before']} steps, and made longer at step {line['step']}. "
        for line in stage.log
        if line["kind"] == "extended"
    )
    return (
        f"{last} steps of {recipe.train.batch} images of {recipe.data.name} "
        f"{recipe.data.train_split}, crops of {recipe.data.crop[0]} x {recipe.data.crop[1]}, "
        f"learning rate {recipe.optim.lr:g}. {frozen}{extended}"
        f"The steps took {60 * hours:.0f} minutes, without validations and restarts. "
        f"Machine: {'; '.join(machines) or 'not recorded'}. "
        + (
            f"Interrupted {counted(len(resumed), 'time')}, resumed at {_join(resumed)}."
            if resumed
            else "Never interrupted."
        )
    )


def training_hours(log: Iterable[Mapping[str, Any]], batch: int) -> float:
    """Add up the time of all steps from the speeds in the log."""
    hours, before = 0.0, 0
    for line in log:
        if line["kind"] == "train" and line.get("images_per_second"):
            hours += (line["step"] - before) * batch / line["images_per_second"] / 3600
            before = line["step"]
    return hours


def _curve(stage: Stage) -> list[str]:
    """Write a table of the validations, thinned to a readable number, with the last one."""
    lines = [line for line in stage.log if line["kind"] == "val"]
    every = -(-len(lines) // MOST_ROWS) or 1
    kept = [line for i, line in enumerate(lines) if (len(lines) - 1 - i) % every == 0]
    losses = {line["step"]: line["loss"] for line in stage.log if line["kind"] == "train"}
    rows = [
        [str(line["step"]), _loss(losses, line["step"]), _percent(line["miou"])] for line in kept
    ]
    return [_table(["step", "training loss", "mIoU % of the validation"], rows)] if rows else []


def _loss(losses: Mapping[int, float], step: int) -> str:
    """Return the last loss that was logged until a step."""
    until = [number for number in losses if number <= step]
    return f"{losses[max(until)]:.3f}" if until else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *rows])


def _percent(value: float | None) -> str:
    return "absent" if value is None or value != value else f"{100 * value:.2f}"


def _join(steps: Sequence[int]) -> str:
    return ", ".join(map(str, steps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("run", type=Path)
    parser.add_argument("name", help="such as voc12")
    parser.add_argument("--licence", required=True, help="of the weights, such as apache-2.0")
    parser.add_argument(
        "--backbone", required=True, help="one sentence: where its weights come from, their terms"
    )
    parser.add_argument("--data", required=True, help="what the images of this training were like")
    parser.add_argument("--command", required=True, help="the commands that train it")
    parser.add_argument("--photos", type=Path, nargs="+", required=True, help="for the picture")
    parser.add_argument("--credits", required=True, help="who made the photographs, their terms")
    parser.add_argument("--root", type=Path, help="directory of the dataset")
    parser.add_argument(
        "--set", action="append", default=[], dest="settings", help="how it shows images to itself"
    )
    given = parser.parse_args()
    with show_progress("score") as progress:
        card = make_pretrained(
            given.run,
            given.name,
            licence=given.licence,
            backbone=given.backbone,
            data=given.data,
            command=given.command,
            photos=given.photos,
            credits=given.credits,
            root=given.root,
            settings=given.settings,
            progress=progress,
        )
    print(card)


if __name__ == "__main__":
    main()
