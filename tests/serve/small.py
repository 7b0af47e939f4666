"""A tiny run in which a single rank matters, and images to send."""

from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from reconet.data.scenes.generate import CLASSES, PALETTE, scene
from reconet.models.context.reconet import RecoNet, TensorReconstruction
from reconet.models.network_info import NetworkInfo
from reconet.models.segmenter import build_model
from reconet.models.trained import TrainedNetwork, save_trained
from reconet.recipes import find_recipe
from reconet.recipes.overrides import apply_overrides
from reconet.system.run_files import BEST

EVIL = "<img src=x onerror=alert(1)>"  # a class may be called anything
NAMES = (EVIL, *CLASSES[1:])


def make_run(directory: Path, *settings: str) -> Path:
    """Not trained, but lively: one lambda is nearly 1, and the fusing convolution listens to it."""
    torch.manual_seed(0)
    recipe = apply_overrides(find_recipe("scenes/tiny"), settings)
    model = build_model(recipe, len(NAMES), pretrained=False).eval()
    if isinstance(model.context, RecoNet) and isinstance(model.context.core, TensorReconstruction):
        with torch.no_grad():
            model.context.core.rank_logits_r[2] = 8
            model.context.fuse.get_parameter("0.weight").chunk(3, dim=1)[1].mul_(8)
    directory.mkdir(parents=True, exist_ok=True)
    save_trained(
        directory / BEST,
        TrainedNetwork(
            model=model,
            info=NetworkInfo(
                recipe=recipe, classes=NAMES, palette=PALETTE, step=20, score={"miou": 0.25}
            ),
        ),
    )
    return directory


def image(number: int = 1, size: tuple[int, int] = (48, 80)) -> NDArray[np.uint8]:
    return scene(3, number, size)[0]


def png(image_hwc: NDArray[np.uint8], kind: str = "PNG", **options: object) -> bytes:
    file = BytesIO()
    Image.fromarray(image_hwc).save(file, format=kind, **options)
    return file.getvalue()


def unpacked(data: bytes) -> NDArray[np.uint8]:
    return np.array(Image.open(BytesIO(data)))
