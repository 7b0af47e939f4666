"""Compare networks on thin structures: `.venv/bin/python -m benchmarks.thin runs/thin`.

Generated images hold wires, grids and cell walls, 3 pixels wide, on textured ground. Dark stripes
that are wider, and texture as dark as the structures, belong to the ground. The images are written
as a folder that `reconet train` takes. A plain U-Net learns from the same crops of the same images,
for as many pixels. Both are scored on images that chose nothing.
"""

import json
import sys
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from reconet.cli import show_progress
from reconet.data.images.read import read_image, read_mask
from reconet.evaluation.metrics import confusion_matrix, scores
from reconet.types import Image, Label

SIZE, WIDTH = (384, 384), 3
SPLITS = {"train": 60, "val": 20, "test": 40}
CLASSES = ("ground", "thin")
CROP, BATCH = 256, 8


def thin_image(rng: np.random.Generator) -> tuple[Image, Label]:
    """Draw one image and its labels."""
    label_hw = np.zeros(SIZE, np.uint8)
    kind = rng.integers(3)
    (_draw_wires, _draw_grid, _draw_cells)[kind](label_hw, rng)
    ground_hw = _noise(rng, 6) * 40 + _noise(rng, 40) * 60 + rng.uniform(90, 150)
    wide_hw = np.zeros(SIZE, np.uint8)
    for _ in range(rng.integers(2, 5)):  # wider and softer: these are ground
        points = rng.uniform(0, SIZE[0], (2, 2)).astype(int).tolist()
        cv2.line(wide_hw, points[0], points[1], 1, int(rng.integers(12, 25)))
    ground_hw -= cv2.GaussianBlur(wide_hw.astype(np.float32), (0, 0), 4) * rng.uniform(30, 60)
    shape_hw = cv2.GaussianBlur(label_hw.astype(np.float32), (0, 0), 0.7)
    light_hw = ground_hw - shape_hw * (rng.uniform(35, 60) + 15 * _noise(rng, 20))
    tint_c = rng.uniform(0.85, 1.15, 3)
    image_hwc = light_hw[..., None] * tint_c + rng.normal(0, 6, (*SIZE, 3))
    return np.clip(image_hwc, 0, 255).astype(np.uint8), label_hw


def _noise(rng: np.random.Generator, size: float) -> NDArray[np.float64]:
    """Return smooth noise of about unit spread, with blobs of `size` pixels."""
    noise_hw = cv2.GaussianBlur(rng.normal(size=SIZE), (0, 0), size)
    return np.asarray(noise_hw / noise_hw.std() / 2)


def _draw_wires(label_hw: Label, rng: np.random.Generator) -> None:
    for _ in range(rng.integers(3, 7)):
        along_n = np.linspace(-0.1, 1.1, 60) * SIZE[1]
        slope, phase, bend = rng.normal(0, 0.5), rng.uniform(0, 6), rng.uniform(5, 30)
        across_n = rng.uniform(0, SIZE[0]) + slope * (along_n - SIZE[1] / 2)
        across_n = across_n + bend * np.sin(along_n / rng.uniform(30, 90) + phase)
        points_n2 = np.stack([along_n, across_n], 1)
        points_n2 = points_n2 if rng.random() < 0.5 else points_n2[:, ::-1]
        cv2.polylines(label_hw, [points_n2.astype(np.int32)], False, 1, WIDTH)


def _draw_grid(label_hw: Label, rng: np.random.Generator) -> None:
    angle, step = rng.uniform(0, np.pi / 2), rng.uniform(28, 60)
    for turn in (angle, angle + np.pi / 2):
        across_2 = np.array([np.cos(turn), np.sin(turn)])
        along_2 = np.array([-across_2[1], across_2[0]])
        for number in range(-15, 16):
            middle_2 = np.array(SIZE) / 2 + across_2 * number * step
            ends = [(middle_2 + far * along_2).astype(int).tolist() for far in (-600, 600)]
            cv2.line(label_hw, ends[0], ends[1], 1, WIDTH)


def _draw_cells(label_hw: Label, rng: np.random.Generator) -> None:
    subdivision = cv2.Subdiv2D((0, 0, SIZE[1], SIZE[0]))
    for point in rng.uniform(1, SIZE[0] - 1, (int(rng.integers(30, 70)), 2)).tolist():
        subdivision.insert(point)
    for cell_n2 in subdivision.getVoronoiFacetList([])[0]:
        cv2.polylines(label_hw, [np.asarray(cell_n2).astype(np.int32)], True, 1, WIDTH)


def write_images(root: Path) -> None:
    """Write the folders that `reconet train` takes, and one of images to test on."""
    for place, (split, count) in enumerate(SPLITS.items()):
        home = root / ("test" if split == "test" else "mine")
        inner = "" if split == "test" else split
        for number in range(count):
            image_hwc, label_hw = thin_image(np.random.default_rng([place, number]))
            for folder, array in (("images", image_hwc[..., ::-1]), ("masks", label_hw)):
                path = home / folder / inner / f"{number:03d}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                cv2.imwrite(str(path), array)
    (root / "mine" / "classes.txt").write_text("\n".join(CLASSES) + "\n")


class UNet(nn.Module):
    """A plain U-Net: image_b3hw -> logits_bkhw, sides that are multiples of 16."""

    def __init__(self, classes: int, width: int = 16) -> None:
        super().__init__()
        sizes = [width * 2**level for level in range(5)]
        self.down = nn.ModuleList(map(_two_convs, [3, *sizes[:-1]], sizes))
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(2 * size, size, 2, stride=2) for size in sizes[-2::-1]
        )
        self.join = nn.ModuleList(_two_convs(2 * size, size) for size in sizes[-2::-1])
        self.classify = nn.Conv2d(width, classes, 1)

    def forward(self, x_bchw: Tensor) -> Tensor:
        kept = []
        for level, block in enumerate(self.down):
            x_bchw = block(F.max_pool2d(x_bchw, 2) if level else x_bchw)
            kept.append(x_bchw)
        for up, join, beside_bchw in zip(self.up, self.join, kept[-2::-1], strict=True):
            x_bchw = join(torch.cat([up(x_bchw), beside_bchw], 1))
        logits_bkhw: Tensor = self.classify(x_bchw)
        return logits_bkhw


def _two_convs(channels_in: int, channels: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before in (channels_in, channels):
        conv = nn.Conv2d(before, channels, 3, padding=1, bias=False)
        layers += [conv, nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


def read_split(root: Path) -> list[tuple[Tensor, Tensor]]:
    """Read images, float in 0..1, and their labels."""
    pairs = []
    for path in sorted((root).glob("*.png")):
        mask = Path(str(path).replace("images", "masks"))
        image_chw = torch.from_numpy(read_image(path)).permute(2, 0, 1).float() / 255
        pairs.append((image_chw, torch.from_numpy(read_mask(mask)).long()))
    return pairs


def train_unet(pairs: list[tuple[Tensor, Tensor]], pixels: int) -> UNet:
    """Train a U-Net on random crops, until it has seen so many pixels."""
    torch.manual_seed(0)
    rng, net = np.random.default_rng(0), UNet(len(CLASSES)).train()
    steps = pixels // (BATCH * CROP * CROP)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    with show_progress("U-Net") as progress:
        progress.start(steps)
        for _ in range(steps):
            images, labels = [], []
            for number in rng.integers(len(pairs), size=BATCH):
                image_chw, label_hw = pairs[number]
                y, x = (int(rng.integers(side - CROP + 1)) for side in label_hw.shape)
                part = (slice(y, y + CROP), slice(x, x + CROP))
                axes = [axis for axis in (-1, -2) if rng.random() < 0.5]
                images.append(image_chw[:, *part].flip(axes))
                labels.append(label_hw[part].flip(axes))
            loss = F.cross_entropy(net(torch.stack(images)), torch.stack(labels))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            progress.advance()
    return net.eval()


@torch.no_grad()
def thin_iou(pairs: list[tuple[Tensor, Tensor]], net: UNet) -> float:
    """Return the IoU of the thin class, in per cent."""
    count_kk = torch.zeros(2, 2, dtype=torch.int64)
    for image_chw, label_hw in pairs:
        count_kk += confusion_matrix(label_hw, net(image_chw[None]).argmax(1)[0], 2)
    return 100 * scores(count_kk).iou_k[1].item()


def main(root: Path, pixels: int) -> None:
    """Write the images, and train and score the U-Net. It says what to run beside it."""
    write_images(root)
    net = train_unet(read_split(root / "mine/images/train"), pixels)
    test = read_split(root / "test/images")
    print(json.dumps({"network": "U-Net", "pixels": pixels, "thin_iou": thin_iou(test, net)}))
    print(
        f"beside it: reconet train {root}/mine --out {root}/run, then "
        f"reconet evaluate {root}/run --root {root}/test",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(float(sys.argv[2])) if len(sys.argv) > 2 else 60_000_000)
