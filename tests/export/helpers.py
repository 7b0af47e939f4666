"""What several tests of exports share."""

import importlib
from pathlib import Path

import torch

from reconet.data import DATASETS
from tests.factories import tiny_network, tiny_recipe, write_run

# The module, to patch it. The attribute `export` of the package is the function.
EXPORT_MODULE = importlib.import_module("reconet.export.export")


def decided_run(directory: Path, *settings: str) -> Path:
    """Write the run of a network that has a strong opinion on every pixel."""
    recipe = tiny_recipe(*settings)
    info = DATASETS["scenes"].info
    network = tiny_network(recipe, classes=info.classes, palette=info.palette, decided=True)
    return write_run(directory, network)


def random_image(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
