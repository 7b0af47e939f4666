"""Write the tables of docs/scale.md from the recipes and counted MACs: `make docs`.

    hours = 3 x 2 x MACs of a crop x images seen / (GPUs x kept x peak x utilisation) / 3600

The 3 is one forward pass and a backward pass of twice the work. The 2 is for two operations in a
multiply-add. The constants in capitals are assumed, not measured. The page states them too.
"""

import re
from pathlib import Path

import torch

from reconet.cost import model_cost
from reconet.data import DATASETS
from reconet.models.segmenter import build_model
from reconet.recipes import RECIPES, Recipe

PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
# Dense peaks from the vendor's data sheets, in operations per second.
PEAKS = {
    "A100, TF32": 156e12,
    "A100, bf16": 312e12,
    "V100, fp16": 125e12,
    "RTX 2080 Ti, fp16": 54e12,
}
UTILISATION = 0.3
KEPT = {1: 1.0, 8: 0.9, 64: 0.8}  # GPUs -> the share of their speed that communication leaves
COCO_IMAGES = 90_000


def tables() -> str:
    return f"{paper_table()}\n{peak_table()}"


def paper_table() -> str:
    lines = [
        "| recipe | MACs of a crop | images | hours on 1 A100 | 8 | 64 |",
        "|---|---|---|---|---|---|",
    ]
    for name, one in RECIPES.items():
        recipe = one.make()
        dataset = DATASETS[recipe.data.name]
        if recipe.model.frozen or not (dataset.needs_root and dataset.info.classes):
            continue  # heads alone, generated images, or your own
        if name.count("_") > 1:
            continue  # short stages that follow another: docs/reproduce.md has their hours
        macs, seen = training_macs(recipe), images_seen(recipe)
        cells = [name, f"{macs / 1e9:.1f} G", f"{seen:,}"]
        cells += [f"{hours_of(macs, seen, gpus, PEAKS['A100, TF32']):.2g}" for gpus in KEPT]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def peak_table() -> str:
    """Return the hours of the main recipe on other GPUs."""
    recipe = RECIPES["voc12/reconet_r101"].make()
    macs, seen = training_macs(recipe), images_seen(recipe)
    lines = ["| GPU | peak | hours on 1 | 8 |", "|---|---|---|---|"]
    for name, peak in PEAKS.items():
        hours = [f"{hours_of(macs, seen, gpus, peak):.2g}" for gpus in (1, 8)]
        lines.append(f"| {name} | {peak / 1e12:g} T/s | {' | '.join(hours)} |")
    return "\n".join(lines) + "\n"


def hours_of(macs: int, images: int, gpus: int, peak: float) -> float:
    return 6 * macs * images / (gpus * KEPT[gpus] * peak * UTILISATION) / 3600


def training_macs(recipe: Recipe) -> int:
    """Count the MACs of one training crop, with the auxiliary head."""
    classes = len(DATASETS[recipe.data.name].info.classes)
    with torch.device("meta"):
        model = build_model(recipe, classes, pretrained=False)
    cost = model_cost(model, recipe.data.crop)
    return sum(part.macs for part in cost.parts if part.name != "core")


def images_seen(recipe: Recipe) -> int:
    train = recipe.train
    if train.steps is not None:
        return train.steps * train.batch
    count = DATASETS[recipe.data.name].info.splits[recipe.data.train_split] or COCO_IMAGES
    return (train.epochs or 0) * (count // train.batch) * train.batch


def page(text: str) -> str:
    """Replace the tables between the two marks."""
    pattern = re.compile(r"(<!-- tables -->\n).*?(<!-- end -->)", re.S)
    return pattern.sub(lambda m: m[1] + "\n" + tables() + "\n" + m[2], text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
