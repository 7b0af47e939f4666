"""Fit the projection of a network to its training images, or take it from the cache.

A projection is a safetensors file with a digest of its tensors. A damaged one is fitted again.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from reconet.cache.build import Source, one_thread, sample_features, worker_count
from reconet.cache.key import digest_of, digest_of_tensors, facts_of_trunk
from reconet.cache.store import ABOUT
from reconet.data.transforms import Augmentation
from reconet.errors import CheckpointError, DataError, RecipeError
from reconet.models.layers import set_projection
from reconet.models.segmenter import Segmenter
from reconet.system.distributed import Processes
from reconet.system.files import write_bytes
from reconet.system.progress import SILENT, Progress
from reconet.system.reading import WEIGHTS_BYTES, check_file
from reconet.system.tensor_files import tensor_bytes
from reconet.system.user_cache import cache_root

PROJECTIONS = "projections"
DIGEST = "digest"  # of the tensors, in the header


def fit_projection(
    model: Segmenter,
    source: Source,
    augmentation: Augmentation,
    seed: int,
    processes: Processes,
    *,
    about: Mapping[str, object] | None = None,
    progress: Progress = SILENT,
) -> None:
    """Fit the projection of a fresh network to its training images, or take it from the cache."""
    project = model.project
    assert isinstance(project, nn.Conv2d)
    if project.out_channels > project.in_channels:
        raise RecipeError(
            f"model.project={project.out_channels} is more than the {project.in_channels} channels "
            "of the backbone's last stage."
        )
    facts = {
        "trunk": facts_of_trunk(model, project=False),
        "images": digest_of([source.identity(index) for index in range(len(source))]),
        "augmentation": augmentation.key(),
        "seed": seed,
        "components": project.out_channels,
    }
    path = cache_root() / PROJECTIONS / f"{digest_of(facts)}.safetensors"

    def find_or_fit() -> dict[str, Tensor]:
        tensors = _read(path, project, progress) if path.is_file() else None
        if tensors is None:
            workers = worker_count(processes)
            sample_nc = sample_features(source, model, seed, workers=workers, progress=progress)
            tensors = _fit(project, sample_nc)
            _write(path, tensors, {**facts, **(about or {})})
        with suppress(OSError):
            os.utime(path)  # its last use
        return tensors

    project.load_state_dict(processes.run_on_first(find_or_fit))


def _fit(project: nn.Conv2d, sample_nc: Tensor) -> dict[str, Tensor]:
    """Fit a projection and return its tensors: the same bits for any number of threads."""
    if len(sample_nc) < project.out_channels:
        raise DataError(
            f"model.project={project.out_channels} needs at least as many positions, and "
            f"the training images have {len(sample_nc)}."
        )
    with one_thread():
        set_projection(project, sample_nc)
    return {name: value.cpu().contiguous() for name, value in project.state_dict().items()}


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
