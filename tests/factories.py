"""Make tiny recipes, networks, runs and images: the one place for all tests.

Trees of files laid out as each dataset wants them are in tests/data/trees.py.
"""

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from reconet.data import open_dataset
from reconet.models.context.reconet import TensorReconstruction
from reconet.models.segmenter import Segmenter, build_model, create_model
from reconet.models.trained import NetworkInfo, TrainedNetwork, save_trained
from reconet.recipes import Recipe, apply_overrides, find_recipe, write_recipe
from reconet.system.run_files import BEST, LOG, RECIPE
from reconet.types import Image, Palette


def tiny_recipe(*settings: str) -> Recipe:
    """Return scenes/tiny with some settings changed, such as "model.rank=5"."""
    return apply_overrides(find_recipe("scenes/tiny"), settings)


def tiny_model(
    context: str = "reconet",
    *,
    num_classes: int = 3,
    crop: tuple[int, int] = (64, 96),
    **options: Any,
) -> Segmenter:
    """Build a network on the smallest backbone, with random weights of the current seed."""
    return create_model(
        context, num_classes=num_classes, backbone="resnet18", width=0.125, crop=crop, **options
    )


def paper_core(model: Segmenter) -> TensorReconstruction:
    """Return the core of a network with the paper's context."""
    core = model.context.core
    assert isinstance(core, TensorReconstruction)
    return core


def tiny_network(
    recipe: Recipe | None = None,
    *,
    classes: tuple[str, ...] | None = None,
    palette: Palette | None = None,
    step: int = 7,
    score: dict[str, float] | None = None,
    decided: bool = False,
) -> TrainedNetwork:
    """Build a network with random weights; a `decided` one has a strong opinion on every pixel.

    Classes and palette are by default those of the recipe's dataset.
    """
    torch.manual_seed(0)
    recipe = recipe or tiny_recipe()
    if classes is None or palette is None:
        info = open_dataset(recipe.data.name, "val", recipe.data.root, recipe.data.options).info
        classes = classes or info.classes
        palette = palette or info.palette[: len(classes)]
    model = build_model(recipe, len(classes), pretrained=False).eval()
    if decided:
        torch.nn.init.normal_(model.classify.weight, std=1)
    info_ = NetworkInfo(
        recipe=recipe, classes=classes, palette=palette, step=step, score=score or {"miou": 0.5}
    )
    return TrainedNetwork(model=model, info=info_)


def write_run(directory: Path, trained: TrainedNetwork, *, log: bool = False) -> Path:
    """Write a run directory as a training leaves it, without the training."""
    directory.mkdir(parents=True, exist_ok=True)
    write_recipe(trained.info.recipe, directory / RECIPE)
    save_trained(directory / BEST, trained)
    if log:
        write_log(directory, len(trained.info.classes))
    return directory


def write_log(directory: Path, num_classes: int) -> None:
    """Write a log of 50 steps with five validations."""
    lines: list[dict[str, object]] = []
    for step in range(10, 60, 10):
        lines.append({"kind": "train", "step": step, "loss": 30 / step, "lr": 0.01 - step / 1e4})
        alive = {"attention_spread": 0.1, "effective_rank": 1.2, "lambda_spread": step / 1e6}
        val = {"miou": step / 100, "pixel_accuracy": 0.5, "iou": [0.1] * num_classes}
        lines.append({"kind": "val", "step": step, **val, **alive})
    (directory / LOG).write_text("".join(json.dumps(line) + "\n" for line in lines))


def smooth_image(seed: int, height: int = 30, width: int = 44) -> Image:
    """Draw an image without fine detail, so that few pixels are near a tie."""
    rng = np.random.default_rng(seed)
    small = Pillow.fromarray(rng.integers(0, 256, (5, 7, 3), dtype=np.uint8))
    return np.array(small.resize((width, height), Pillow.Resampling.BICUBIC))


def write_video(path: Path, frames: int) -> None:
    """Write a short video of smooth images."""
    code = cv2.VideoWriter.fourcc(*"MJPG" if path.suffix == ".avi" else "mp4v")
    writer = cv2.VideoWriter(str(path), code, 10, (64, 48))
    if not writer.isOpened():
        pytest.skip("this OpenCV writes no videos")
    for number in range(frames):
        writer.write(smooth_image(number, 48, 64))
    writer.release()


class ProgressRecorder:
    """Keeps what a task reports, one line per call."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def start(self, total: int, task: str = "") -> None:
        self.lines.append(f"start {total}")

    def advance(self, count: int = 1) -> None:
        self.lines.append(f"advance {count}")

    def status(self, text: str) -> None:
        self.lines.append(text)

    def note(self, text: str) -> None:
        self.lines.append(text)
