"""Keep a choice in a folder that appears in one move, so that a kill leaves no half of it."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from reconet.errors import OutputError
from reconet.inference.backends.probe import hash_export, remember_export
from reconet.inference.fast import CHOICE, FastChoice
from reconet.system.files import write_text
from reconet.system.reading import SETTINGS_BYTES, read_file
from reconet.system.user_cache import FAST, cache_root

NETWORK = "network"  # the stem of the file that is kept
DAY = 86400.0  # seconds: no measurement takes so long


def is_in_cache(folder: Path) -> bool:
    """Tell whether a folder is in the user's cache, where only this user writes."""
    return folder.parent == cache_root() / FAST


@contextmanager
def staged_folder(home: Path) -> Iterator[Path]:
    """Give a folder to work in, beside the one that will be kept. Remove it afterwards."""
    for left in home.parent.glob(".*.part"):  # by a process that was killed
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > DAY:
                shutil.rmtree(left)
    folder = home.with_name(f".{home.name}.{uuid4().hex[:8]}.part")
    try:
        folder.mkdir(parents=True)
        yield folder
    except OSError as error:
        raise OutputError(f"cannot write {home.parent}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def keep(choice: FastChoice, file: Path | None, home: Path) -> FastChoice:
    """Move a network and the choice of it to their folder. Replace those that are there."""
    with staged_folder(home) as folder:
        if file is not None:
            for path in sorted(file.parent.glob(f"{file.stem}.*")):
                shutil.move(path, folder / f"{NETWORK}{path.suffix}")
            kept = folder / f"{NETWORK}{file.suffix}"
            choice = choice.model_copy(update={"file": kept.name, "digest": hash_export(kept)})
        write_text(folder / CHOICE, choice.model_dump_json(indent=1) + "\n")
        if not is_in_cache(home):
            _remove_older(home.parent, choice.machine)
        if home.exists():  # damaged, or measured without images
            shutil.rmtree(home)
        os.rename(folder, home)
    if file is not None:
        remember_export(home / choice.file)
    return choice


def _remove_older(place: Path, machine: str) -> None:
    """Remove what a run keeps for its earlier weights on the same machine."""
    for path in place.glob(f"[!.]*/{CHOICE}"):
        with suppress(OSError, ValueError):
            text = read_file(path, limit=SETTINGS_BYTES, within=place)
            if FastChoice.model_validate_json(text).machine == machine:
                shutil.rmtree(path.parent)
