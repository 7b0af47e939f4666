"""Open the features of a split: find them in the cache, or compute them and keep them.

The cache is a folder of stores. The name of a store is a digest of all that its features depend
on: the weights of backbone and projection, the stages, the augmentation or the size of whole
images, and the images themselves. So trainings and studies that agree in these share one store,
and a change of any of them finds another.

Stores that differ only in their images stand in one folder. A new one takes the entries that it
shares with the others from them, such as the images that two splits have in common.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress

import torch
from safetensors.torch import load_file
from torch import nn

from reconet.cache.build import Source, fill, sample_features
from reconet.cache.key import digest_of, digest_of_trunk
from reconet.cache.lock import lock_store, mark_in_use
from reconet.cache.store import ABOUT, Part, Store
from reconet.data.transforms import Augmentation
from reconet.errors import CheckpointError, DataError, OutputError, RecipeError
from reconet.models.projection import set_projection
from reconet.models.segmenter import Segmenter
from reconet.system.distributed import Processes
from reconet.system.files import readable_bytes, write_atomic, write_text
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted
from reconet.system.reading import WEIGHTS_BYTES, check_file, read_file
from reconet.system.tensor_files import tensor_bytes
from reconet.system.user_cache import cache_root

FEATURES, PROJECTIONS = "features", "projections"
IDENTITIES = "entries.json"


def open_features(
    source: Source,
    model: Segmenter,
    parts: Mapping[str, Part],
    facts: Mapping[str, object],
    processes: Processes,
    *,
    about: Mapping[str, object] | None = None,
    progress: Progress = SILENT,
) -> Store:
    """Return a complete store of the features of `source`, computing what is missing.

    `facts` says what the entries are, beside their images and the network. The store's name
    depends on it. `about` only describes the store, for people.
    """
    store = find_store(source, model, parts, facts)
    identities = [source.identity(index) for index in range(len(source))]
    with processes.first_holds(lambda: lock_store(store)):
        described = {**(about or {}), **facts}
        processes.run_on_first(lambda: _prepare(store, identities, described, progress))
        error = None
        try:
            share = slice(processes.rank, None, processes.size)
            fill(store, source, model, workers=_workers(processes), mine=share, progress=progress)
        except (DataError, OutputError) as raised:
            error = raised
        processes.raise_together(error)
    return store


def find_store(
    source: Source, model: Segmenter, parts: Mapping[str, Part], facts: Mapping[str, object]
) -> Store:
    """Return the store of the features of `source`. It may be incomplete, or not exist yet."""
    shapes = {name: [part.dtype, *part.shape] for name, part in parts.items()}
    trunk = digest_of_trunk(model.backbone, model.project if "c4" in parts else None)
    family = digest_of({"trunk": trunk, "parts": shapes, **_identity(model), **facts})
    identities = [source.identity(index) for index in range(len(source))]
    return Store(cache_root() / FEATURES / family / digest_of(identities), len(source), dict(parts))


def _identity(model: Segmenter) -> dict[str, object]:
    """Return what a backbone computes by beside its weights, if it has such a thing."""
    identity = dict(model.backbone.cache_facts())
    return {"backbone": identity} if identity else {}


def _workers(processes: Processes) -> int:
    """Use every core by a process of its own, unless torchrun or a GPU does that already."""
    alone = processes.size == 1 and processes.device.type == "cpu"
    return (os.cpu_count() or 1) if alone else 0


def _prepare(
    store: Store, identities: list[str], about: Mapping[str, object], progress: Progress
) -> None:
    """Make the files of a store, drop damaged entries, and take what other stores have."""
    mark_in_use(store)
    try:
        store.create(about)
        write_text(store.directory / IDENTITIES, json.dumps(identities))
    except OSError as error:
        raise OutputError(f"cannot write {store.directory}: {error.strerror}.") from error
    damaged = store.damaged(progress)
    if damaged:
        progress.note(
            f"computing anew {counted(len(damaged), 'damaged entry')} in {store.directory}"
        )
        store.forget(damaged)
    missing = store.missing()
    if missing:
        _take_from_relatives(store, identities, missing)
    left = len(store.missing())
    if left:
        size = readable_bytes(left * (store.bytes // store.count))
        progress.note(f"features of {counted(left, 'entry')}, {size}, go to {store.directory}")


def _take_from_relatives(store: Store, identities: list[str], missing: list[int]) -> None:
    """Copy missing entries from stores that differ only in their images."""
    for directory in sorted(store.directory.parent.iterdir()):
        if directory == store.directory or not (directory / IDENTITIES).is_file():
            continue
        try:
            others = json.loads(read_file(directory / IDENTITIES, within=directory))
            relative = Store(directory, len(others), store.parts)
            places = {identity: index for index, identity in enumerate(others)}
            relative.create(json.loads(read_file(directory / ABOUT, within=directory)))
        except (OSError, ValueError, TypeError):
            continue  # a broken relative is no help, and no harm
        for index in missing:
            place = places.get(identities[index])
            if place is not None and relative.is_whole(place):
                store.write(index, relative.read(place))


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
        "backbone": digest_of_trunk(model.backbone, None),
        **({"identity": model.backbone.cache_facts()} if model.backbone.cache_facts() else {}),
        "images": digest_of([source.identity(index) for index in range(len(source))]),
        "augmentation": augmentation.key(),
        "seed": seed,
        "components": project.out_channels,
    }
    path = cache_root() / PROJECTIONS / f"{digest_of(facts)}.safetensors"

    def make() -> dict[str, torch.Tensor]:
        if not path.is_file():
            workers = _workers(processes)
            sample_nc = sample_features(source, model, seed, workers=workers, progress=progress)
            if len(sample_nc) < project.out_channels:
                raise DataError(
                    f"model.project={project.out_channels} needs at least as many positions, and "
                    f"the training images have {len(sample_nc)}."
                )
            set_projection(project, sample_nc)
            tensors = {name: value.contiguous() for name, value in project.state_dict().items()}
            described = {ABOUT: json.dumps({**facts, **(about or {})}, sort_keys=True)}
            data = tensor_bytes(tensors, described)
            write_atomic(path, lambda file: file.write(data))
        with suppress(OSError):
            os.utime(path)  # its last use
        return load_file(check_file(path, limit=WEIGHTS_BYTES, within=path.parent))

    try:
        project.load_state_dict(processes.run_on_first(make))
    except (RuntimeError, OSError) as error:
        raise CheckpointError(f"cannot read {path}: delete it and run again.") from error
