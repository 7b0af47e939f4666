"""A sheet of images to look at: what is there, what is true, what the network says."""

from pathlib import Path

import torch

from reconet.data.dataset import Dataset, spread
from reconet.data.images.draw import Tile, colourise, fit, write_sheet
from reconet.inference.protocol import Protocol
from reconet.inference.windows import labels
from reconet.models.trained import load_trained
from reconet.system.run_files import SHEET

IMAGES, SIDE = 12, 200


def prediction_sheet(directory: Path, dataset: Dataset, device: torch.device) -> Path:
    """Images spread over a dataset, each beside its truth and the best network's answer."""
    trained = load_trained(directory)
    model = trained.model.to(device)
    protocol = Protocol.in_training(trained.info.recipe.data)
    tiles = []
    for sample in spread(dataset, IMAGES):
        image_hwc = torch.from_numpy(sample.image_hwc).to(device)
        said_hw = labels(model.coarse, image_hwc, protocol, model.num_classes).cpu().numpy()
        truth, answer = (
            colourise(label, trained.info.palette) for label in (sample.label_hw, said_hw)
        )
        images = [fit(image, SIDE, SIDE) for image in (sample.image_hwc, truth, answer)]
        tiles.append(Tile(f"{sample.name}: image, truth, prediction", images))
    names = list(zip(trained.info.classes, trained.info.palette, strict=True))
    write_sheet(directory / SHEET, tiles, names)
    return directory / SHEET
