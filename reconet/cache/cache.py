"""Open the features of a split: find them in the cache, or compute them and keep them.

The cache is a folder of stores. The name of a store is a digest of all that its features depend
on: the weights and layers of backbone and projection, the stages, the augmentation or the size of
whole images, and the content of the images. So trainings and studies that agree in these share one
store, and a change of any of them finds another. The labels of augmented views have stores of their
own, which depend on the content of the masks and not on the network.

Stores that differ only in their images stand in one folder. A new one takes the entries that it
shares with the others from them, such as the images that two splits have in common.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from reconet.cache.build import Source, fill, worker_count
from reconet.cache.key import digest_of, facts_of_trunk
from reconet.cache.lock import lock_store, mark_in_use
from reconet.cache.store import FORMAT, LABEL, Part, Store
from reconet.errors import DataError, OutputError
from reconet.models.segmenter import Segmenter
from reconet.system.distributed import Processes
from reconet.system.files import readable_bytes, write_text
from reconet.system.hardware import Precision
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted
from reconet.system.reading import read_file
from reconet.system.user_cache import cache_root

FEATURES = "features"
IDENTITIES = "entries.json"


def open_features(
    source: Source,
    model: Segmenter,
    parts: Mapping[str, Part],
    facts: Mapping[str, object],
    processes: Processes,
    *,
    precision: Precision = "fp32",
    about: Mapping[str, object] | None = None,
    progress: Progress = SILENT,
) -> Store:
    """Return a complete store of the features of `source`, computing what is missing.

    `facts` says what the entries are, beside their images and the network. The store's name
    depends on it, and on `precision`, which the backbone computes in. `about` only describes the
    store, for people.
    """
    store = find_store(source, model, parts, facts, precision)
    if processes.run_on_first(lambda: _is_finished_for_ever(store, progress)):
        return store
    identities = [source.identity(index) for index in range(len(source))]
    with processes.first_holds(lambda: lock_store(store, progress)):
        described = {**(about or {}), **facts, **_unusual(precision)}
        processes.run_on_first(lambda: _prepare(store, identities, described, progress))
        with processes.together():
            fill(
                store,
                source,
                model,
                workers=worker_count(processes),
                precision=precision,
                rank=processes.rank,
                size=processes.size,
                progress=progress,
            )
        processes.run_on_first(lambda: _check_complete(store))
    return store


def find_store(
    source: Source,
    model: Segmenter,
    parts: Mapping[str, Part],
    facts: Mapping[str, object],
    precision: Precision = "fp32",
) -> Store:
    """Return the store of the features of `source`. It may be incomplete, or not exist yet."""
    shapes = {name: [part.dtype, *part.shape] for name, part in parts.items()}
    network: dict[str, object] = {}
    if parts.keys() - {LABEL}:
        network = {"trunk": facts_of_trunk(model, project="c4" in parts), "precision": precision}
    family = digest_of({"format": FORMAT, "parts": shapes, **network, **facts})
    identities = [source.identity(index) for index in range(len(source))]
    return Store(cache_root() / FEATURES / family / digest_of(identities), len(source), dict(parts))


def _is_finished_for_ever(store: Store, progress: Progress) -> bool:
    """Return whether a store is complete and whole, on a disk that can only be read."""
    if store.is_writable or not store.has_all_files():
        return False
    return not (store.missing() or store.damaged(progress))


def _unusual(precision: Precision) -> dict[str, object]:
    """Return the precision if it is not the usual one."""
    return {} if precision == "fp32" else {"precision": precision}


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
    if store.missing():
        _take_from_relatives(store, identities)
    left = len(store.missing())
    if left:
        size = readable_bytes(left * (store.bytes // store.count))
        progress.note(f"features of {counted(left, 'entry')}, {size}, go to {store.directory}")


def _take_from_relatives(store: Store, identities: list[str]) -> None:
    """Copy missing entries from stores that differ only in their images."""
    for directory in sorted(store.directory.parent.iterdir()):
        if directory != store.directory and (directory / IDENTITIES).is_file():
            with suppress(OSError, ValueError, TypeError):  # a broken one is no help, and no harm
                _take_from(directory, store, identities)


def _take_from(directory: Path, store: Store, identities: list[str]) -> None:
    """Copy missing entries from one other store. That store is only read."""
    others = json.loads(read_file(directory / IDENTITIES, within=directory))
    relative = Store(directory, len(others), store.parts)
    mark_in_use(relative)
    if not relative.has_all_files():
        return
    places = {identity: index for index, identity in enumerate(others)}
    for index in store.missing():
        place = places.get(identities[index])
        if place is not None and relative.is_whole(place):
            store.write(index, relative.read(place))


def _check_complete(store: Store) -> None:
    """Raise an error if entries are missing. Another process may have dropped some."""
    left = len(store.missing())
    if left:
        raise DataError(f"{store.directory} still lacks {counted(left, 'entry')}; run it again.")
