"""Fit the projection of a network to its training images, or take it from the cache.

A projection is a safetensors file with a digest of its tensors. A damaged one is fitted again.
"""

import json
import os
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from reconet.cache.build import FEW, as_fast_trunk, one_thread, worker_count
from reconet.cache.store import ABOUT
from reconet.cache.wanted import (
    TrainingViews,
    describe,
    digest_of,
    digest_of_tensors,
    facts_of_trunk,
)
from reconet.data.dataset import Dataset
from reconet.data.order import random_stream
from reconet.data.parallel import map_in_processes
from reconet.errors import CheckpointError, DataError, RecipeError
from reconet.models.layers import set_projection
from reconet.models.segmenter import Segmenter
from reconet.recipes.schema import Recipe
from reconet.system.distributed import Processes
from reconet.system.files import write_bytes
from reconet.system.progress import SILENT, Progress
from reconet.system.reading import WEIGHTS_BYTES, check_file
from reconet.system.tensor_files import tensor_bytes
from reconet.system.user_cache import cache_root

PROJECTIONS = "projections"
DIGEST = "digest"  # of the tensors, in the header
SAMPLE_IMAGES, SAMPLE_POSITIONS = 512, 64  # that a projection is fitted to
SAMPLE = 3  # what the stream of random numbers is for


def fit_projection(
    model: Segmenter,
    recipe: Recipe,
    train_set: Dataset,
    processes: Processes,
    progress: Progress = SILENT,
) -> None:
    """Fit the projection of a fresh network to its training images, or take it from the cache."""
    project, source = model.project, TrainingViews.of(recipe, train_set)
    assert isinstance(project, nn.Conv2d)
    if project.out_channels > project.in_channels:
        raise RecipeError(
            f"model.project={project.out_channels} is more than the {project.in_channels} channels "
            "of the backbone's last stage."
        )
    facts = {
        "trunk": facts_of_trunk(model, project=False),
        "images": digest_of([source.identity(index) for index in range(len(source))]),
        "augmentation": source.augmentation.key(),
        "seed": source.seed,
        "components": project.out_channels,
    }
    path = cache_root() / PROJECTIONS / f"{digest_of(facts)}.safetensors"

    def find_or_fit() -> dict[str, Tensor]:
        tensors = _read(path, project, progress) if path.is_file() else None
        if tensors is None:
            sample_nc = _sample(source, model, worker_count(processes), progress)
            if len(sample_nc) < project.out_channels:
                raise DataError(
                    f"model.project={project.out_channels} needs at least as many positions, and "
                    f"the training images have {len(sample_nc)}."
                )
            with one_thread():  # the same bits for any number of threads
                set_projection(project, sample_nc)
            tensors = {n: value.cpu().contiguous() for n, value in project.state_dict().items()}
            _write(path, tensors, {**facts, **describe(recipe, train_set, model)})
        with suppress(OSError):
            os.utime(path)  # its last use
        return tensors

    project.load_state_dict(processes.run_on_first(find_or_fit))


@dataclass(frozen=True)
class PositionSampler:
    """Take the last stage's features at some random positions of one entry."""

    source: TrainingViews
    model: Segmenter

    def __call__(self, index: int) -> Tensor:
        with one_thread(), torch.inference_mode():
            image_bchw = self.source[index][0].to(self.model.mean_c11.device)
            image_bchw = image_bchw.contiguous(memory_format=torch.channels_last)
            c4_cn = self.model.backbone(self.model.normalise(image_bchw)).c4[0].flatten(1).cpu()
            rng = random_stream(SAMPLE, self.source.seed, index)
            position_n = rng.choice(c4_cn.shape[1], min(SAMPLE_POSITIONS, c4_cn.shape[1]), False)
            sample_nc: Tensor = c4_cn[:, torch.from_numpy(position_n)].T.clone()
            return sample_nc


def _sample(source: TrainingViews, model: Segmenter, workers: int, progress: Progress) -> Tensor:
    """Collect features_nc of the last stage, before any projection, over the whole source."""
    count = min(SAMPLE_IMAGES, len(source))
    indices: list[int] = np.linspace(0, len(source) - 1, count).astype(int).tolist()
    progress.start(count, "sample features")
    sampler, parts = PositionSampler(source, as_fast_trunk(model)), []
    workers = workers if count >= FEW else 0
    with closing(map_in_processes(sampler, indices, workers, chunk=1)) as results:
        for part_nc in results:
            parts.append(part_nc)
            progress.advance()
    return torch.cat(parts)


def _write(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, object]) -> None:
    metadata = {ABOUT: json.dumps(about, sort_keys=True), DIGEST: digest_of_tensors(tensors)}
    write_bytes(path, tensor_bytes(tensors, metadata))


def _read(path: Path, project: nn.Conv2d, progress: Progress) -> dict[str, Tensor] | None:
    """Read the tensors of a projection. Say so and return None if they are damaged."""
    try:
        with safe_open(check_file(path, limit=WEIGHTS_BYTES, within=path.parent), "pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in project.state_dict()}
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}.") from error
    except SafetensorError:
        metadata, tensors = {}, {}
    whole = metadata.get(DIGEST) == digest_of_tensors(tensors)
    if whole and _kinds(tensors) == _kinds(project.state_dict()):
        return tensors
    progress.note(f"{path} is damaged: the projection is fitted again")
    return None


def _kinds(tensors: Mapping[str, Tensor]) -> dict[str, object]:
    return {name: (value.dtype, value.shape) for name, value in tensors.items()}
