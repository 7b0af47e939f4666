"""A tiny network with random weights and a strong opinion on every pixel, saved as by a run."""

from pathlib import Path

import torch

from reconet.data.scenes.generate import CLASSES, PALETTE
from reconet.models.network_info import NetworkInfo
from reconet.models.segmenter import build_model
from reconet.models.trained import TrainedNetwork, save_trained
from reconet.recipes import find_recipe
from reconet.recipes.overrides import apply_overrides
from reconet.system.run_files import BEST


def tiny_run(directory: Path, context: str = "reconet", *settings: str) -> Path:
    torch.manual_seed(0)
    recipe = apply_overrides(find_recipe("scenes/tiny"), [f"model.context={context}", *settings])
    model = build_model(recipe, len(CLASSES)).eval()
    torch.nn.init.normal_(model.classify.weight, std=1)
    save_trained(
        directory / BEST,
        TrainedNetwork(
            model=model,
            info=NetworkInfo(
                recipe=recipe, classes=CLASSES, palette=PALETTE, step=7, score={"miou": 0.5}
            ),
        ),
    )
    return directory
