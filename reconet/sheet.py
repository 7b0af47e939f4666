"""A sheet of pictures to look at: what is there, what is true, what the network says."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image as Pillow

from reconet.data.dataset import Dataset
from reconet.data.draw import Tile, colourise, fit, sheet
from reconet.files import write_atomic
from reconet.models.trained import load_trained

NAME = "predictions.png"


@torch.no_grad()
def prediction_sheet(
    directory: Path, dataset: Dataset, device: torch.device, count: int = 12, side: int = 200
) -> Path:
    """Pictures spread over a dataset, each beside its truth and the best network's answer."""
    trained = load_trained(directory)
    model = trained.model.to(device)
    tiles = []
    for index in np.linspace(0, len(dataset) - 1, min(count, len(dataset))).astype(int):
        sample = dataset[int(index)]
        image_bchw = torch.from_numpy(sample.image_hwc).permute(2, 0, 1)[None].to(device)
        said_hw = model(image_bchw).main_bkhw.argmax(1)[0].byte().cpu().numpy()
        truth, answer = (colourise(label, trained.palette) for label in (sample.label_hw, said_hw))
        images = [fit(image, side, side) for image in (sample.image_hwc, truth, answer)]
        tiles.append(Tile(f"{sample.name}: picture, truth, prediction", images))
    names = list(zip(trained.classes, trained.palette, strict=True))
    page = Pillow.fromarray(sheet(tiles, names, columns=2))
    path = directory / NAME
    write_atomic(path, lambda file: page.save(file, "PNG"))
    return path
