"""What is to be done: which files are written for which image, and which are there already."""

import os
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from uuid import uuid4

from reconet.errors import OutputError
from reconet.inference.folder.find import Found
from reconet.inference.folder.names import KINDS, name_outputs
from reconet.inference.folder.record import (
    JOURNALS,
    Entry,
    Record,
    read_record,
    recorded_outputs,
    relative,
    write_record,
)
from reconet.inference.predictor import Predictor
from reconet.system.distributed import Processes
from reconet.system.run_files import BEST

Job = tuple[Path, str]  # an image and its stem


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is written for each image, beside its labels."""

    overlay: bool = True
    probabilities: bool = False

    def kinds(self) -> list[str]:
        return [kind for kind in KINDS if kind == "labels" or getattr(self, kind)]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the leading process has found, known to all."""

    out: Path
    run: str  # hash of network and settings
    network: str
    token: str  # of this run's journals
    images: list[Job]
    record: Record = field(repr=False)  # of what need not be done again


def make_plan(
    found: Found, out: Path, source: Path, predictor: Predictor, wanted: Wanted, overwrite: bool
) -> Plan:
    """Which files will be written for which image, and which are there already."""
    run = f"{identity(source)}-{_hash(str(predictor.protocol).encode())}"
    record = read_record(out)
    if overwrite:  # all is to be done again; the names stay
        record = {key: replace(entry, run="") for key, entry in record.items()}
    else:
        _check_same(out, record, run)
    ours = recorded_outputs(out)
    inputs = set(found.images)
    kept = {path: record[key].stem for path in inputs if (key := relative(path, out)) in record}
    # An image that is gone keeps its files, but not their names.
    kept |= {
        path: entry.stem
        for key, entry in record.items()
        if (path := Path(os.path.normpath(out / key))) not in inputs and path.exists()
    }

    def is_foreign(name: str) -> bool:
        return out / name in inputs or (os.path.lexists(out / name) and out / name not in ours)

    stems = name_outputs(found.images, found.root, kept, is_foreign)
    write_record(out, record, out.glob(JOURNALS))
    done = {key: entry for key, entry in record.items() if _is_done(out, entry, run, wanted)}
    return Plan(
        out=out,
        run=run,
        network=str(source),
        token=uuid4().hex[:12],
        images=list(stems.items()),
        record=done,
    )


def identity(source: Path) -> str:
    """A hash of the file, or files, that a network is in."""
    path = source / BEST if source.is_dir() else source
    weights = path.with_suffix(".bin")  # beside an .xml
    digest = blake2b(digest_size=8)
    for part in [path, weights] if path.suffix == ".xml" and weights.is_file() else [path]:
        with open(part, "rb") as file:
            while block := file.read(2**20):
                digest.update(block)
    return digest.hexdigest()


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=4).hexdigest()


def _check_same(out: Path, record: Record, run: str) -> None:
    other = [entry for entry in record.values() if entry.run not in ("", run)]
    if other:
        what = "1 prediction" if len(other) == 1 else f"{len(other)} predictions"
        (network, settings), first = run.split("-"), other[0]
        others = {entry.run for entry in other}
        if all(one.startswith(f"{network}-") for one in others):
            differs = "of this network with other settings"
        elif all(one.endswith(f"-{settings}") for one in others):
            differs = f"of another network ({first.network})"
        else:
            differs = f"of another network ({first.network}), with other settings"
        raise OutputError(f"{out} holds {what} {differs}; name another --out, or --overwrite.")


def _is_done(out: Path, entry: Entry, run: str, wanted: Wanted) -> bool:
    """By this network, of this very image, and all that is wanted is there."""
    if entry.run != run or (entry.bytes, entry.mtime_ns) != stamp(out / entry.source):
        return False
    return all(
        kind in entry.outputs and (out / entry.outputs[kind]).is_file() for kind in wanted.kinds()
    )


def stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


def shard(plan: Plan, processes: Processes, size: int) -> list[list[Job]]:
    """This process's chunks of what is to be done. Chunks are cut before what is done is left out,
    and several processes take turns with them."""
    chunks = [plan.images[start : start + size] for start in range(0, len(plan.images), size)]
    own = chunks[processes.rank :: processes.size]
    todo = [
        [job for job in chunk if relative(job[0], plan.out) not in plan.record] for chunk in own
    ]
    return [chunk for chunk in todo if chunk]
