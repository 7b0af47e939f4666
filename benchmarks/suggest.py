"""Print the table of docs/own-data.md: `.venv/bin/python -m benchmarks.suggest runs/suggest`.

Generated scenes get masks, and 5 % of the training masks are corrupted, in five ways that happen.
A small network is trained on all of them, the wrong ones included. Then `reconet suggest` ranks the
training images. The table tells how many of the wrong masks are among its first rows, and how many
would be there in a random order. Runs that are finished are not trained again.
"""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import cv2
import numpy as np

from reconet.cli import show_progress
from reconet.data.scenes.generate import CLASSES, scene
from reconet.engine import run_training
from reconet.recipes import apply_overrides, find_recipe
from reconet.suggest import suggest
from reconet.types import IGNORE, Label

SIZE, IMAGES = (64, 64), {"train": 400, "val": 60}
WRONG = 0.05  # of the training masks
SEEDS = (0, 1, 2)
STEPS = 500
FIRST = (0.05, 0.1, 0.2)  # parts of the rows
LEAST = 0.02  # of the image: the share of an area that gets a wrong class
SHUFFLES = 1000
Corrupt = Callable[[Label, Label, np.random.Generator], Label]


def other_class(label_hw: Label, _other_hw: Label, rng: np.random.Generator) -> Label:
    """Give all pixels of one class another class."""
    return _replace(label_hw, rng, int(rng.integers(len(CLASSES))))


def forgotten(label_hw: Label, _other_hw: Label, rng: np.random.Generator) -> Label:
    """Give all pixels of one class the commonest class of the image."""
    return _replace(label_hw, rng, int(np.bincount(label_hw[label_hw != IGNORE]).argmax()))


def _replace(label_hw: Label, rng: np.random.Generator, new: int) -> Label:
    labels, counts = np.unique(label_hw[label_hw != IGNORE], return_counts=True)
    large = [k for k in labels[counts >= LEAST * label_hw.size].tolist() if k != new]
    chosen = large[int(rng.integers(len(large)))]
    return np.where(label_hw == chosen, np.uint8(new), label_hw)


def shifted(label_hw: Label, _other_hw: Label, rng: np.random.Generator) -> Label:
    """Move the labels by an eighth of the image. Those of the edge are repeated."""
    height, width = label_hw.shape
    down, across = (rng.choice([-1, 1], 2) * (height // 8, width // 8)).tolist()
    rows_h = (np.arange(height) - down).clip(0, height - 1)
    columns_w = (np.arange(width) - across).clip(0, width - 1)
    return np.ascontiguousarray(label_hw[rows_h][:, columns_w])


def mirrored(label_hw: Label, _other_hw: Label, _rng: np.random.Generator) -> Label:
    """Mirror the labels, but not the image."""
    return np.ascontiguousarray(label_hw[:, ::-1])


def of_another_image(_label_hw: Label, other_hw: Label, _rng: np.random.Generator) -> Label:
    """Take the mask of another image."""
    return other_hw


WAYS: dict[str, Corrupt] = {
    "another class": other_class,
    "forgotten": forgotten,
    "shifted": shifted,
    "mirrored": mirrored,
    "of another image": of_another_image,
}


def write_images(root: Path, seed: int, counts: Mapping[str, int] = IMAGES) -> dict[str, str]:
    """Write images and masks. Return which masks are wrong, and in which way."""
    wrong: dict[str, str] = {}
    rng = np.random.default_rng(seed)
    count = round(WRONG * counts["train"])
    chosen = rng.choice(counts["train"], count, replace=False).tolist()
    for place, (split, images) in enumerate(counts.items()):
        for folder in ("images", "masks"):
            (root / folder / split).mkdir(parents=True, exist_ok=True)
        for number in range(images):
            image_hwc, label_hw = scene(seed, 2 * number + place, SIZE)
            if split == "train" and number in chosen:
                way = list(WAYS)[chosen.index(number) % len(WAYS)]
                other_hw = scene(seed, 2 * (number + images), SIZE)[1]
                label_hw = WAYS[way](label_hw, other_hw, rng)
                wrong[f"{number:04d}"] = way
            bgr_hwc = cv2.cvtColor(image_hwc, cv2.COLOR_RGB2BGR)
            cv2.imwrite(str(root / "images" / split / f"{number:04d}.png"), bgr_hwc)
            cv2.imwrite(str(root / "masks" / split / f"{number:04d}.png"), label_hw)
    return wrong


def train(root: Path, directory: Path, seed: int, steps: int = STEPS) -> None:
    """Train a small network, unless that is done."""
    recipe = apply_overrides(
        find_recipe("scenes/study_quick"),
        [
            "data.name=folder",
            f"data.root={root.absolute()}",
            f"data.options={json.dumps({'classes': CLASSES})}",
            "model.context=fcn",
            "model.aux=false",
            "model.width=0.125",
            f"train.steps={steps}",
            f"train.eval_every={steps}",
            f"train.save_every={steps}",
            f"train.seed={seed}",
        ],
    )
    with show_progress("train") as progress:
        run_training(recipe, directory, resume=True, device="cpu", progress=progress)


def ranked(directory: Path) -> list[str]:
    """Return the names of the training images in the order of `reconet suggest`."""
    with show_progress("suggest") as progress:
        result = suggest(directory, device="cpu", most=1, progress=progress)
    assert result is not None
    return [Path(one.name).name for one in result.images]


def found_in(order: list[str], wrong: set[str], part: float) -> int:
    """Count the wrong masks among the first rows."""
    return len(wrong.intersection(order[: round(part * len(order))]))


def in_random_order(order: list[str], wrong: set[str], part: float, seed: int) -> float:
    """Count them in many random orders. Return the mean."""
    rng = np.random.default_rng(seed)
    shuffled = [rng.permutation(order).tolist() for _ in range(SHUFFLES)]
    return float(np.mean([found_in(one, wrong, part) for one in shuffled]))


def main(out: Path, seeds: tuple[int, ...] = SEEDS) -> None:
    """Train what is missing, and print two tables."""
    orders: dict[int, list[str]] = {}
    wrong: dict[int, dict[str, str]] = {}
    for seed in seeds:
        data, directory = out / f"data{seed}", out / f"seed{seed}"
        wrong[seed] = write_images(data, seed)
        train(data, directory, seed)
        orders[seed] = ranked(directory)
    print("| of the rows, the first | `reconet suggest` | seed by seed | random order |")
    print("|---|---|---|---|")
    for part in FIRST:
        each = [found_in(orders[s], set(wrong[s]), part) / len(wrong[s]) for s in seeds]
        chance = [in_random_order(orders[s], set(wrong[s]), part, s) / len(wrong[s]) for s in seeds]
        listed = ", ".join(f"{100 * one:.0f}" for one in each)
        print(
            f"| {100 * part:.0f} % | {100 * np.mean(each):.0f} % | {listed} "
            f"| {100 * np.mean(chance):.0f} % |"
        )
    print("\n| what is wrong | masks | in the first 10 % |\n|---|---|---|")
    for way in WAYS:
        named = {seed: {n for n, w in wrong[seed].items() if w == way} for seed in seeds}
        hits = sum(found_in(orders[seed], named[seed], 0.1) for seed in seeds)
        print(f"| {way} | {sum(map(len, named.values()))} | {hits} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]), tuple(map(int, sys.argv[2:])) or SEEDS)
