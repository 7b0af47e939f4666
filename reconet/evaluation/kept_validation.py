"""Keep the validation of a run's best network, so that a report needs neither network nor images.

A training writes validation.json beside best.safetensors whenever a validation finds a better
network: its confusion matrix. At its end it adds some images as pages show them, which are on the
sheet predictions.png too. What a run does not have, such as one of 0.1.0, is computed again.

Dimensions: h, w pixels, c colours, k classes. count_kk[t, p] = pixels of class t predicted as p.
"""

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import cv2
import numpy as np
import torch
from pydantic import BaseModel, Field, ValidationError
from torch import Tensor

from reconet.data import open_split
from reconet.data.classes import photograph_palette
from reconet.data.dataset import Dataset, Sample, evenly_spaced, sample_evenly
from reconet.data.images.draw import fit, overlay
from reconet.data.images.sheets import Tile, write_sheet
from reconet.evaluation.confusion import count_model_confusion
from reconet.evaluation.evaluate import Evaluation, check_classes, no_labels_error, score_counts
from reconet.inference.protocol import Protocol
from reconet.inference.windows import predict_labels
from reconet.models.segmenter import Segmenter
from reconet.models.trained import (
    NetworkInfo,
    TrainedNetwork,
    find_weights,
    load_trained,
    read_info,
)
from reconet.system.distributed import Processes
from reconet.system.files import write_text
from reconet.system.progress import SILENT, Progress
from reconet.system.reading import read_file
from reconet.system.run_files import SHEET, VALIDATION
from reconet.types import IGNORE, Image, Label, Palette

IMAGES = 12  # that are kept
SHEET_SIDE, PAGE_SIDE = 200, 320  # pixels, of the longer side
ERROR_COLOUR, NO_LABEL_COLOUR = (225, 29, 44), (214, 196, 150)
Pixels = Annotated[int, Field(ge=0, le=2**53)]


class KeptImage(BaseModel):
    """A validation image as pages show it. Its drawings are files in base64."""

    name: str
    right: float | None  # part of the labelled pixels, at full size
    image: str  # JPEG
    truth: str  # JPEG, an overlay
    prediction: str  # the same
    errors: str  # PNG


class KeptValidation(BaseModel):
    """The content of validation.json. Step and score say which network it belongs to."""

    step: int
    score: dict[str, float | None]
    scored: int  # images
    counts: list[list[Pixels]]
    images: list[KeptImage] = []


def keep_validation(directory: Path, info: NetworkInfo, images: int, count_kk: Tensor) -> None:
    """Write how the best network of a run did on `images` images."""
    kept = KeptValidation(
        step=info.step, score=dict(info.score), scored=images, counts=count_kk.tolist()
    )
    write_text(directory / VALIDATION, kept.model_dump_json())


def keep_predictions(directory: Path, dataset: Dataset, device: torch.device) -> None:
    """Draw evenly spaced images with predictions of the best network: a sheet, and for pages."""
    trained = load_trained(directory)
    info, tiles, images = trained.info, [], []
    protocol = Protocol.in_training(info.recipe.data)
    for sample, predicted_hw in _predict(trained.model.to(device), dataset, protocol, IMAGES):
        tiles.append(_tile(sample, predicted_hw, info.palette, SHEET_SIDE))
        images.append(_kept_image(sample, predicted_hw, info.palette))
    colours = photograph_palette(info.palette)
    write_sheet(directory / SHEET, tiles, list(zip(info.classes, colours, strict=True)))
    kept = _read(directory, info)
    if kept is not None:
        kept = kept.model_copy(update={"images": images})
        write_text(directory / VALIDATION, kept.model_dump_json())


def best_evaluation(
    directory: Path, processes: Processes, progress: Progress = SILENT
) -> Evaluation:
    """Return how the best network of a run did in its validation, or validate it once more."""
    info = read_info(find_weights(directory))
    kept, data = processes.run_on_first(lambda: _read(directory, info)), info.recipe.data
    if kept is not None:
        images, count_kk = kept.scored, torch.tensor(kept.counts)
    else:
        images, count_kk = _count(load_trained(directory), processes, progress)
    figures, iou = score_counts(count_kk, data.name, info.classes)
    return Evaluation(
        dataset=data.name,
        title=data.title,
        split=data.val_split,
        images=images,
        protocol=str(Protocol.in_training(data)),
        step=info.step,
        figures=figures,
        iou=iou,
        count_kk=count_kk,
    )


def best_images(directory: Path, device: torch.device, count: int) -> list[KeptImage]:
    """Return evenly spaced images with the predictions of the best network of a run.

    Whether they were kept or are predicted now, they are of the same images.
    """
    if not count:
        return []
    info = read_info(find_weights(directory))
    kept = _read(directory, info)
    if kept is None or len(kept.images) < min(count, kept.scored):
        model, data = load_trained(directory).model.to(device), info.recipe.data
        dataset = open_split(data, data.val_split)
        check_classes(info.classes, dataset, "it")
        predicted = _predict(model, dataset, Protocol.in_training(data), max(count, IMAGES))
        images = [_kept_image(*one, info.palette) for one in predicted]
    else:
        images = kept.images
    return [images[index] for index in evenly_spaced(len(images), count)]


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
    for sample, predicted_hw in _predict(model, dataset, protocol, count):
        yield _tile(sample, predicted_hw, palette, side)


def _read(directory: Path, info: NetworkInfo) -> KeptValidation | None:
    """Read what was kept of this very network, if anything was."""
    try:
        data = read_file(directory / VALIDATION, within=directory)
        kept = KeptValidation.model_validate_json(data)
    except (OSError, ValidationError):
        return None
    classes = len(info.classes)
    whole = len(kept.counts) == classes and all(len(row) == classes for row in kept.counts)
    fits = kept.step == info.step and kept.score == info.score
    return kept if whole and fits and any(map(any, kept.counts)) else None


def _count(trained: TrainedNetwork, processes: Processes, progress: Progress) -> tuple[int, Tensor]:
    """Count the confusion of a network by the protocol of validations, as a training does."""
    data = trained.info.recipe.data
    dataset = open_split(data, data.val_split)
    check_classes(trained.info.classes, dataset, "it")
    progress.start(processes.share_of(len(dataset)), "validate")
    count_kk = count_model_confusion(
        trained.model.to(processes.device),
        dataset,
        processes,
        protocol=Protocol.in_training(data),
        workers=data.workers,
        progress=progress,
    ).count_kk.cpu()
    if not count_kk.any():
        raise no_labels_error(dataset)
    return len(dataset), count_kk


def _predict(
    model: Segmenter, dataset: Dataset, protocol: Protocol, count: int
) -> Iterator[tuple[Sample, Label]]:
    device = model.mean_c11.device
    for sample in sample_evenly(dataset, count):
        image_hwc = torch.from_numpy(sample.image_hwc).to(device)
        predicted_hw = predict_labels(model.coarse, image_hwc, protocol, model.num_classes)
        yield sample, predicted_hw.cpu().numpy()


def _tile(sample: Sample, predicted_hw: Label, palette: Palette, side: int) -> Tile:
    image_hwc, *labels = sample.image_hwc, sample.label_hw, predicted_hw
    drawn = [overlay(image_hwc, label_hw, palette) for label_hw in labels]
    images = [fit(image_hwc, side, side) for image_hwc in (image_hwc, *drawn)]
    return Tile(f"{sample.name}: image, truth, prediction", images)


def _kept_image(sample: Sample, predicted_hw: Label, palette: Palette) -> KeptImage:
    """Draw an image for a page. Labels shrink without new ones being invented."""
    image_hwc, truth_hw = sample.image_hwc, sample.label_hw
    labelled_hw = truth_hw != IGNORE
    pixels = np.count_nonzero(labelled_hw)
    right = np.count_nonzero((predicted_hw == truth_hw) & labelled_hw)
    if max(truth_hw.shape) > PAGE_SIDE:
        image_hwc = fit(image_hwc, PAGE_SIDE, PAGE_SIDE)
        truth_hw, predicted_hw = (_shrink(one, image_hwc) for one in (truth_hw, predicted_hw))
    return KeptImage(
        name=sample.name,
        right=right / pixels if pixels else None,
        image=_encode(".jpg", image_hwc),
        truth=_encode(".jpg", overlay(image_hwc, truth_hw, palette)),
        prediction=_encode(".jpg", overlay(image_hwc, predicted_hw, palette)),
        errors=_encode(".png", draw_errors(image_hwc, truth_hw, predicted_hw)),
    )


def draw_errors(image_hwc: Image, truth_hw: Label, predicted_hw: Label) -> Image:
    """Draw the image pale, with wrong pixels in red and void in sand."""
    grey_hw = np.asarray(cv2.cvtColor(image_hwc, cv2.COLOR_RGB2GRAY), np.uint8)
    # 16 shades: pale enough to see the colours on top, and few bytes.
    pale_hwc = (175 + (grey_hw // 16) * 5).astype(np.uint8)[..., None].repeat(3, -1)
    pale_hwc[truth_hw == IGNORE] = NO_LABEL_COLOUR
    pale_hwc[(truth_hw != IGNORE) & (truth_hw != predicted_hw)] = ERROR_COLOUR
    return pale_hwc


def _shrink(label_hw: Label, like_hwc: Image) -> Label:
    height, width = like_hwc.shape[:2]
    small = cv2.resize(label_hw, (width, height), interpolation=cv2.INTER_NEAREST)
    return np.asarray(small, np.uint8)


def _encode(suffix: str, image_hwc: Image) -> str:
    _, data_n = cv2.imencode(suffix, image_hwc[..., ::-1])
    return b64encode(data_n.tobytes()).decode()
