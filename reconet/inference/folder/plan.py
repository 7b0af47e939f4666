"""Decide which files are written for which image, and which images are done already."""

import os
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from uuid import uuid4

from reconet.errors import OutputError
from reconet.inference.backends.probe import hash_export
from reconet.inference.by_name import FoundNetwork
from reconet.inference.fast import is_export
from reconet.inference.folder.find import FoundImages
from reconet.inference.folder.output_names import ENDINGS, name_outputs, possible_files
from reconet.inference.folder.record import (
    JOURNALS,
    RECORD,
    Record,
    RecordEntry,
    read_record,
    recorded_outputs,
    source_key,
    write_record,
)
from reconet.inference.predictor import Predictor
from reconet.inference.protocol import Protocol
from reconet.system.distributed import Processes
from reconet.system.files import remove_temporary_files
from reconet.system.readable import counted
from reconet.system.run_files import BEST

PlannedImage = tuple[Path, str]  # an image and the stem of its output files


@dataclass(frozen=True, kw_only=True)
class WantedOutputs:
    """The files that are written for each image, beside its mask."""

    overlay: bool = True
    probabilities: bool = False

    def kinds(self) -> list[str]:
        """Return the names of all kinds of files that are written."""
        return [kind for kind in ENDINGS if kind == "labels" or getattr(self, kind)]


@dataclass(frozen=True, kw_only=True)
class FolderPlan:
    """What the first process found, the same on all processes."""

    out: Path
    run: str  # hash of network and settings
    network: str
    token: str  # in the names of this run's journals
    images: list[PlannedImage]
    done: Record = field(repr=False)  # images that need not be predicted again


def make_folder_plan(
    found: FoundImages,
    out: Path,
    network: FoundNetwork,
    predictor: Predictor,
    wanted: WantedOutputs,
    overwrite: bool,
) -> FolderPlan:
    """Plan the files of all images. With `overwrite` none is done, but the names stay."""
    run = f"{hash_network(network.path)}-{_hash_settings(network.path, predictor)}"
    record = read_record(out)
    if overwrite:
        record = {key: replace(entry, run="") for key, entry in record.items()}
    else:
        _check_same_run(out, record, run)
    ours = recorded_outputs(out)
    inputs = set(found.paths)
    kept = {path: record[key].stem for path in inputs if (key := source_key(path, out)) in record}
    # An image that was deleted keeps its output files, but others may take their names.
    kept |= {
        path: entry.stem
        for key, entry in record.items()
        if (path := Path(os.path.normpath(out / key))) not in inputs and path.exists()
    }

    def is_foreign(name: str) -> bool:
        return out / name in inputs or (os.path.lexists(out / name) and out / name not in ours)

    stems = name_outputs(found.paths, found.root, kept, is_foreign)
    _remove_half_files(out, record)
    write_record(out, record, out.glob(JOURNALS))
    return FolderPlan(
        out=out,
        run=run,
        network=str(network),
        token=uuid4().hex[:12],
        images=list(stems.items()),
        done={key: entry for key, entry in record.items() if _is_done(out, entry, run, wanted)},
    )


def _hash_settings(source: Path, predictor: Predictor) -> str:
    """Hash how images are shown, and how the network runs if its labels are not those of fp32.

    --memory is left out: it belongs to the machine, which may have more or less of it now.
    """
    how = predictor.network.how
    is_plain = is_export(source) or how.startswith("torch fp32")
    protocol = replace(predictor.protocol, budget_bytes=Protocol.budget_bytes)
    settings = str(protocol) if is_plain else f"{protocol}; {how}"
    return blake2b(settings.encode(), digest_size=4).hexdigest()


def _remove_half_files(out: Path, record: Record) -> None:
    """Remove what a killed run has left of files that it had begun to write."""
    begun = [entry.stem for entry in record.values() if not entry.run]
    names = {RECORD} | {name for stem in begun for name in possible_files(stem)}
    for name in names:
        remove_temporary_files(out / name)


def hash_network(source: Path) -> str:
    """Hash the file, or files, that hold a network."""
    return hash_export(source / BEST if source.is_dir() else source, digest_bytes=8)


def _check_same_run(out: Path, record: Record, run: str) -> None:
    """Raise if the folder holds predictions of another network or with other settings."""
    others = [entry for entry in record.values() if entry.run not in ("", run)]
    if not others:
        return
    count = counted(len(others), "prediction")
    network, settings = run.split("-")
    if all(entry.run.startswith(f"{network}-") for entry in others):
        origin = "of this network with other settings"
    elif all(entry.run.endswith(f"-{settings}") for entry in others):
        origin = f"of another network ({others[0].network})"
    else:
        origin = f"of another network ({others[0].network}), with other settings"
    raise OutputError(f"{out} holds {count} {origin}; name another --out, or --overwrite.")


def _is_done(out: Path, entry: RecordEntry, run: str, wanted: WantedOutputs) -> bool:
    """Tell whether this network has predicted this very image, and all wanted files exist."""
    if entry.run != run or (entry.bytes, entry.mtime_ns) != size_and_time(out / entry.source):
        return False
    return all(
        kind in entry.outputs and (out / entry.outputs[kind]).is_file() for kind in wanted.kinds()
    )


def size_and_time(path: Path) -> tuple[int, int]:
    """Return size in bytes and modification time in ns, or (-1, -1) if there is no such file."""
    try:
        status = path.stat()
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


def chunks_of_process(
    plan: FolderPlan, processes: Processes, size: int
) -> list[list[PlannedImage]]:
    """Return the chunks of images that this process predicts.

    Chunks are cut before the images that are done are left out, and dealt out to the processes in
    turn. So one process and several show the network the same batches.
    """
    chunks = [plan.images[start : start + size] for start in range(0, len(plan.images), size)]
    own = chunks[processes.rank :: processes.size]
    todo = [
        [image for image in chunk if source_key(image[0], plan.out) not in plan.done]
        for chunk in own
    ]
    return [chunk for chunk in todo if chunk]
