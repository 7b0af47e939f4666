"""Open a public network by its name: fetch it, convert it, and keep the result in the cache."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reconet.errors import CheckpointError, OutputError
from reconet.models.trained import TrainedNetwork, read_info, save_trained
from reconet.recipes.storage import write_recipe
from reconet.system.files import open_own
from reconet.system.locks import lock_file
from reconet.system.progress import SILENT, Progress
from reconet.system.run_files import BEST, LOCK, RECIPE
from reconet.system.user_cache import cache_root
from reconet.zoo.catalogue import TORCHVISION, PublicNetwork, find_public
from reconet.zoo.convert import Publication, convert_file
from reconet.zoo.fetch import fetch
from reconet.zoo.sources import SOURCES

FOLDER = "zoo"  # in the cache


def open_public(name: str, progress: Progress = SILENT) -> Path:
    """Return the file of a public network, converted. The first time it is fetched."""
    network = find_public(name)
    path = cached_path(network)
    if not path.is_file():
        with _locked(path.parent):  # another process may be fetching or converting it
            if not path.is_file():
                _fetch_and_convert(network, path, progress)
    return path


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = open_own(folder / LOCK, os.O_RDWR)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}.") from error
    try:
        with suppress(OSError):  # a file system without locks
            lock_file(handle)
        yield
    finally:
        os.close(handle)


def _fetch_and_convert(network: PublicNetwork, path: Path, progress: Progress) -> None:
    source = "torchvision" if network.source == TORCHVISION else "mmseg"
    fetched = path.parent / network.address.rpartition("/")[2]
    fetch(network.address, fetched, network.sha256, progress)
    progress.status("convert")
    conversion = convert_file(
        fetched,
        source,
        dataset=network.dataset,
        published=Publication(
            steps=network.steps, score={"miou": network.miou}, origin=origin_of(network)
        ),
    )
    write_network(path.parent, conversion.network)
    fetched.unlink(missing_ok=True)  # the converted file holds the same weights


def cached_path(network: PublicNetwork) -> Path:
    """Return where the converted file of a network is, or will be."""
    return cache_root() / FOLDER / network.name / BEST


def origin_of(network: PublicNetwork) -> dict[str, str]:
    """Say where a network is from, whose it is, and how it was scored."""
    toolkit = SOURCES["torchvision" if network.source == TORCHVISION else "mmseg"]
    shown = toolkit.published(network.dataset)
    size = {
        "short_side": f"a short side of {shown.base_size}",
        "base_size": f"a long side of {shown.base_size}",
        "original": "their own size",
    }[shown.eval.relative_to]
    crop = f"windows of {shown.crop[0]} x {shown.crop[1]}"
    mode = "whole images" if shown.eval.mode == "whole" else crop
    return {
        "name": network.name,
        "address": network.address,
        "licence": network.licence,
        "protocol": f"as published: {mode} at {size}, one scale, no mirror images",
    }


def write_network(folder: Path, network: TrainedNetwork) -> Path:
    """Write a network and its recipe as a folder that every verb opens."""
    folder.mkdir(parents=True, exist_ok=True)
    write_recipe(network.info.recipe, folder / RECIPE)
    save_trained(folder / BEST, network)  # last: where it is, the folder is complete
    return folder / BEST


def was_converted(folder: Path) -> bool:
    """Tell whether a folder holds a converted network and nothing else, and may be replaced."""
    with suppress(CheckpointError):
        names = {one.name for one in folder.iterdir()}
        return names == {BEST, RECIPE} and bool(read_info(folder / BEST).origin)
    return False
