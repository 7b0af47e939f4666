"""Draw one sheet of images with their truth and the predictions of a network."""

from collections.abc import Iterator
from pathlib import Path

import torch

from reconet.data.dataset import Dataset, sample_evenly
from reconet.data.images.draw import Tile, colourise, fit, write_sheet
from reconet.inference.protocol import Protocol
from reconet.inference.windows import predict_labels
from reconet.models.segmenter import Segmenter
from reconet.models.trained import load_trained
from reconet.system.run_files import SHEET
from reconet.types import Palette

IMAGES, SIDE = 12, 200


def write_prediction_sheet(directory: Path, dataset: Dataset, device: torch.device) -> Path:
    """Write a sheet of evenly spaced images with the predictions of the best network of a run."""
    trained = load_trained(directory)
    model = trained.model.to(device)
    protocol = Protocol.in_training(trained.info.recipe.data)
    palette = trained.info.palette
    tiles = list(predict_tiles(model, dataset, protocol, palette, count=IMAGES, side=SIDE))
    names = list(zip(trained.info.classes, palette, strict=True))
    write_sheet(directory / SHEET, tiles, names)
    return directory / SHEET


def predict_tiles(
    model: Segmenter,
    dataset: Dataset,
    protocol: Protocol,
    palette: Palette,
    *,
    count: int,
    side: int,
) -> Iterator[Tile]:
    """Yield evenly spaced images beside their truth and prediction. The model is in eval mode."""
    device = model.mean_c11.device
    for sample in sample_evenly(dataset, count):
        image_hwc = torch.from_numpy(sample.image_hwc).to(device)
        predicted_hw = predict_labels(model.coarse, image_hwc, protocol, model.num_classes)
        truth, prediction = (
            colourise(label_hw, palette)
            for label_hw in (sample.label_hw, predicted_hw.cpu().numpy())
        )
        images = [fit(image, side, side) for image in (sample.image_hwc, truth, prediction)]
        yield Tile(f"{sample.name}: image, truth, prediction", images)
