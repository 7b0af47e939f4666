"""A tiny run in which a single rank matters, and images to send."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fastapi.testclient import TestClient
from PIL import Image as Pillow

from reconet import Predictor
from reconet.data.scenes.generate import CLASSES, PALETTE, scene
from reconet.models.context.reconet import RecoNet, TensorReconstruction
from reconet.models.context.reconet_plus import RecoNetPlus
from reconet.serve import Limits
from reconet.serve.app import create_app
from reconet.types import Image
from tests.factories import tiny_network, tiny_recipe, write_run

EVIL = "<img src=x onerror=alert(1)>"  # a class may be called anything
NAMES = (EVIL, *CLASSES[1:])
LIMITS = Limits(upload_bytes=200_000, pixels=100_000, waiting=2, read_seconds=5, kept_images=3)
PNG = {"Content-Type": "image/png"}  # the headers of an upload


def lively_run(directory: Path, *settings: str) -> Path:
    """Write a run with an untrained network in which one rank changes the segmentation.

    One lambda is far larger than the others, and the fusing convolution gives it much weight.
    """
    trained = tiny_network(
        tiny_recipe(*settings), classes=NAMES, palette=PALETTE, step=20, score={"miou": 0.25}
    )
    context = trained.model.context
    with torch.no_grad():
        if isinstance(context, RecoNet) and isinstance(context.core, TensorReconstruction):
            context.core.rank_logits_r[2] = 8
            context.fuse.get_parameter("0.weight").chunk(3, dim=1)[1].mul_(8)
        elif isinstance(context, RecoNetPlus):
            context.core.weight_r[2] = -8
            context.core.masks.get_parameter("conv.weight").normal_()
            context.fuse.get_parameter("0.weight").chunk(2, dim=1)[1].mul_(8)
    return write_run(directory, trained)


def client_of(
    predictor: Predictor, base_url: str = "http://127.0.0.1", **options: Any
) -> TestClient:
    """Return a client of an application in this process."""
    return TestClient(create_app(predictor, LIMITS, **options), base_url=base_url)


def image(number: int = 1, size: tuple[int, int] = (48, 80)) -> Image:
    return scene(3, number, size)[0]


def encode(image_hwc: Image, kind: str = "PNG", **options: object) -> bytes:
    file = BytesIO()
    Pillow.fromarray(image_hwc).save(file, format=kind, **options)
    return file.getvalue()


def decode(data: bytes) -> Image:
    return np.array(Pillow.open(BytesIO(data)))


def store(client: TestClient, image_hwc: Image) -> str:
    """Send an image to be kept, and return its address."""
    answer = client.post("/api/images", content=encode(image_hwc), headers=PNG)
    assert answer.status_code == 201, answer.text
    return f"/api/images/{answer.json()['id']}"
