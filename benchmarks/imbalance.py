"""Print the table of docs/losses.md: `.venv/bin/python -m benchmarks.imbalance runs/imbalance`.

Generated scenes become a set of two classes: the sun, 1 % of the pixels, and everything else. The
moon looks like the sun, so it is void. A small network is trained with several losses and three
seeds each. Nothing else differs. Runs that are finished are not trained again.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from reconet.cli import show_progress
from reconet.data.scenes.generate import CLASSES, scene
from reconet.engine import balanced_weights, read_log, run_training
from reconet.recipes import Recipe, apply_overrides, find_recipe
from reconet.study import difference, estimate
from reconet.types import IGNORE, Label

SIZE, IMAGES = (64, 64), {"train": 400, "val": 200}
SEEDS = (0, 1, 2)
FULL = "the full ratio"  # the numbers are counted when the images are there
LOSSES: dict[str, tuple[str, ...]] = {
    "cross entropy": (),
    "balanced": ("loss.class_weights=balanced",),
    FULL: (),
    "cross entropy + dice": ("loss.dice=1",),
    "dice alone": ("loss.cross_entropy=0", "loss.dice=1"),
    "focal": ("loss.cross_entropy=0", "loss.focal=1"),
    "cross entropy + lovasz": ("loss.lovasz=1",),
    "balanced + dice": ("loss.class_weights=balanced", "loss.dice=1"),
    "cross entropy, 4 times as long": ("train.steps=800", "train.eval_every=800"),
}


def two_classes(label_hw: Label) -> Label:
    """Return 1 for the sun, void for the moon, and 0 for the rest."""
    table_n = np.zeros(256, np.uint8)
    table_n[CLASSES.index("sun")] = 1
    table_n[[CLASSES.index("moon"), IGNORE]] = IGNORE
    return table_n[label_hw]


def write_images(root: Path) -> list[int]:
    """Write the images and masks, and return the training pixels of both classes."""
    pixels = [0, 0]
    for place, (split, count) in enumerate(IMAGES.items()):
        for folder in ("images", "masks"):
            (root / folder / split).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            image_hwc, label_hw = scene(0, 2 * number + place, SIZE)
            label_hw = two_classes(label_hw)
            bgr_hwc = cv2.cvtColor(image_hwc, cv2.COLOR_RGB2BGR)
            cv2.imwrite(str(root / "images" / split / f"{number:04d}.png"), bgr_hwc)
            cv2.imwrite(str(root / "masks" / split / f"{number:04d}.png"), label_hw)
            if split == "train":
                pixels = [pixels[k] + int((label_hw == k).sum()) for k in (0, 1)]
    return pixels


def recipe_of(root: Path, loss: str, seed: int, pixels: Sequence[int]) -> Recipe:
    """Return a small training that differs only in its loss and seed."""
    settings = LOSSES[loss]
    if loss == FULL:
        weights = [weight**2 for weight in balanced_weights(pixels)]
        settings = (f"loss.class_weights={weights}",)
    return apply_overrides(
        find_recipe("scenes/study_quick"),
        [
            "data.name=folder",
            f"data.root={root}",
            'data.options={"classes":["other","sun"]}',
            "model.context=fcn",
            "model.aux=false",
            "model.width=0.125",
            "train.steps=200",
            "train.eval_every=200",
            "train.save_every=200",
            f"train.seed={seed}",
            *settings,
        ],
    )


def foreground_iou(out: Path, loss: str, seed: int, pixels: Sequence[int]) -> float:
    """Train, unless that is done, and return the IoU of the sun at the end."""
    directory = out / loss.replace(" ", "_") / f"seed{seed}"
    recipe = recipe_of(out / "data", loss, seed, pixels)
    with show_progress("train") as progress:
        run_training(recipe, directory, resume=True, device="cpu", progress=progress)
    scores = [line["iou"][1] for line in read_log(directory) if line["kind"] == "val"]
    return float(scores[-1])


def main(out: Path, chosen: Sequence[str]) -> None:
    """Train what is missing, and print a table."""
    pixels = write_images(out / "data")
    print(f"the sun: {100 * pixels[1] / sum(pixels):.2f} % of the labelled training pixels\n")
    print(
        "| loss | IoU of the sun, % | seed by seed | more than cross entropy |\n|---|---|---|---|"
    )
    plain: dict[int, float] = {}
    for loss in chosen or LOSSES:
        scores = {seed: foreground_iou(out, loss, seed, pixels) for seed in SEEDS}
        plain = plain or scores
        mean, more = estimate(list(scores.values())).mean, difference(scores, plain)
        assert more is not None
        gain = f"{100 * more.mean:+.1f} +- {100 * (more.half_width or 0):.1f}"
        each = ", ".join(f"{100 * score:.1f}" for score in scores.values())
        print(f"| {loss} | {100 * mean:.1f} | {each} | {gain} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
