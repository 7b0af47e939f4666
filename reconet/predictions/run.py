"""Predict many pictures into a folder: go on where a run was stopped, and on after a broken file.

The list is cut into chunks of as many pictures as the network sees at once, and processes take
turns with chunks; so one process and several show it the same batches, and write the same files.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

from reconet.data.dataset import Image
from reconet.data.images import read_upright
from reconet.errors import DataError, OutputError, ReconetError
from reconet.models.trained import BEST
from reconet.predict import Prediction, Predictor
from reconet.predictions.find import Found, find_pictures
from reconet.predictions.names import KINDS, name_outputs
from reconet.predictions.record import (
    Entry,
    Journal,
    Record,
    journal_path,
    read_record,
    recorded_outputs,
    relative,
    write_record,
)
from reconet.predictions.write import write_outputs
from reconet.protocol import Protocol
from reconet.recipe import Recipe
from reconet.runtime import AUTO, open_fast, precision_of
from reconet.world import World, joined

FOLDER = "predictions"  # in a run directory, unless told otherwise


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is written for each picture, beside its labels."""

    overlay: bool = True
    probabilities: bool = False

    def kinds(self) -> list[str]:
        return [kind for kind in KINDS if kind == "labels" or getattr(self, kind)]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of every picture, in the order in which they were found."""

    out: Path
    network: str
    how: str
    protocol: str
    pictures: list[dict[str, Any]]  # source, status, and what is known of it

    def having(self, status: str) -> list[dict[str, Any]]:
        return [picture for picture in self.pictures if picture["status"] == status]

    def as_dict(self) -> dict[str, Any]:
        counts = {status: len(self.having(status)) for status in ("done", "skipped", "failed")}
        return {"format": 1, **vars(self), "out": str(self.out), **counts}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the leading process has found, known to all."""

    out: Path
    run: str  # hash of network and settings
    network: str
    token: str  # of this run's journals
    pictures: list[tuple[Path, str]]  # with their stems
    record: Record = field(repr=False)  # of what need not be done again


def predict_files(
    source: Path,
    arguments: list[str],
    out: Path | None = None,
    *,
    wanted: Wanted,
    change: Callable[[Recipe], Recipe] = lambda recipe: recipe,
    memory: int | None = None,
    device: str = "auto",
    precision: str = AUTO,
    overwrite: bool = False,
    progress: Callable[[int], Callable[[], None]] | None = None,
) -> Outcome | None:
    """Write the predictions of all pictures. Of many processes only the leading one gets a result.

    `change` may change how pictures are shown; `memory` is for that in bytes. `progress` is told
    how many pictures this process will do, and what it returns is called after each of them.
    """
    with joined(device) as world:
        found = find_pictures(arguments) if world.leads else None
        predictor = _open(source, world, change, memory, precision)
        plan = None
        if found is not None:
            folder = Path(os.path.abspath(out or default_out(source)))
            plan = make_plan(found, folder, source, predictor, wanted, overwrite)
        plan = world.share(plan)
        mine = shard(plan, world, predictor.protocol.batch)
        tick = progress(sum(map(len, mine))) if progress and world.leads else lambda: None
        worker = Worker(plan, predictor, wanted, world.rank, tick)
        said = [one for chunk in mine for one in worker.predict(chunk)]
        everything = dict(one for part in world.gather(said) for one in part)
        if not world.leads:
            return None
        return _finish(plan, predictor, everything, world.size)


def default_out(source: Path) -> Path:
    return (source if source.is_dir() else source.parent) / FOLDER


def _open(
    source: Path,
    world: World,
    change: Callable[[Recipe], Recipe],
    memory: int | None,
    precision: str,
) -> Predictor:
    """The same network on every process: what `auto` means is decided by one of them."""
    network = open_fast(source, world.device, precision) if world.leads else None
    decided = world.share(precision_of(network) if network else None)
    network = network or open_fast(source, world.device, decided)
    recipe = change(network.recipe)
    protocol = Protocol.of(recipe.eval, recipe.data)
    if memory is not None:
        protocol = replace(protocol, budget_bytes=memory)
    return Predictor(network, protocol=protocol, device=str(world.device))


def make_plan(
    found: Found, out: Path, source: Path, predictor: Predictor, wanted: Wanted, overwrite: bool
) -> Plan:
    """Which files will be written for which picture, and which are there already."""
    run = f"{identity(source)}-{_hash(str(predictor.protocol).encode())}"
    record = read_record(out)
    if overwrite:  # all is to be done again; the names stay
        record = {key: replace(entry, run="") for key, entry in record.items()}
    else:
        _check_same(out, record, run)
    ours = recorded_outputs(out)
    inputs = set(found.pictures)
    kept = {path: record[key].stem for path in inputs if (key := relative(path, out)) in record}
    # A picture that is gone keeps its files, but not their names.
    kept |= {
        path: entry.stem
        for key, entry in record.items()
        if (path := Path(os.path.normpath(out / key))) not in inputs and path.exists()
    }

    def is_foreign(name: str) -> bool:
        return out / name in inputs or (os.path.lexists(out / name) and out / name not in ours)

    stems = name_outputs(found.pictures, found.root, kept, is_foreign)
    write_record(out, record, out.glob("predictions.*.part"))
    done = {key: entry for key, entry in record.items() if _is_done(out, entry, run, wanted)}
    return Plan(
        out=out,
        run=run,
        network=str(source),
        token=uuid4().hex[:12],
        pictures=list(stems.items()),
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
        raise OutputError(
            f"{out} holds {len(other)} predictions of another network or other settings "
            f"({other[0].network}); choose another --out, or --overwrite them."
        )


def _is_done(out: Path, entry: Entry, run: str, wanted: Wanted) -> bool:
    """By this network, of this very picture, and all that is wanted is there."""
    if entry.run != run or (entry.bytes, entry.mtime_ns) != _stamp(out / entry.source):
        return False
    return all(
        kind in entry.outputs and (out / entry.outputs[kind]).is_file() for kind in wanted.kinds()
    )


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


Job = tuple[Path, str]  # a picture and its stem
Said = tuple[Path, dict[str, Any]]


def shard(plan: Plan, world: World, size: int) -> list[list[Job]]:
    """This process's chunks of what is to be done. Chunks are cut before what is done is left out,
    and several processes take turns with them."""
    chunks = [plan.pictures[start : start + size] for start in range(0, len(plan.pictures), size)]
    own = chunks[world.rank :: world.size]
    todo = [
        [job for job in chunk if relative(job[0], plan.out) not in plan.record] for chunk in own
    ]
    return [chunk for chunk in todo if chunk]


class Worker:
    """Predicts chunks of pictures and writes their files; says of each what became of it."""

    def __init__(
        self, plan: Plan, predictor: Predictor, wanted: Wanted, rank: int, tick: Callable[[], None]
    ) -> None:
        self.plan, self.predictor, self.wanted, self.tick = plan, predictor, wanted, tick
        self.journal = Journal(journal_path(plan.out, plan.token, rank))

    def predict(self, chunk: list[Job]) -> Iterator[Said]:
        """Small pictures of one size go together; others at once, so that none waits in memory."""
        waiting: dict[tuple[int, ...], list[tuple[Entry, Path, Image]]] = {}
        for path, stem in chunk:
            try:
                entry, image_hwc = self._read(path, stem)
            except (ReconetError, OSError, MemoryError) as error:
                yield self._failed(path, error)
                continue
            size = image_hwc.shape[:2]
            group = [*waiting.pop(size, []), (entry, path, image_hwc)]
            if len(group) < self.predictor.together(size):
                waiting[size] = group
            else:
                yield from self._group(group)
        for group in waiting.values():
            yield from self._group(group)

    def _read(self, path: Path, stem: str) -> tuple[Entry, Image]:
        if not path.is_file():  # a pipe would be waited for
            what = "it is no ordinary file" if os.path.lexists(path) else "no such file"
            raise DataError(f"cannot read {path}: {what}.")
        size, mtime_ns = _stamp(path)
        image_hwc, frames = read_upright(path)
        note = f"has {frames} frames or pages; only the first is used" if frames > 1 else ""
        entry = Entry(
            source=relative(path, self.plan.out),
            stem=stem,
            network=self.plan.network,
            bytes=size,
            mtime_ns=mtime_ns,
            height=image_hwc.shape[0],
            width=image_hwc.shape[1],
            note=note,
        )
        return entry, image_hwc

    def _group(self, group: list[tuple[Entry, Path, Image]]) -> Iterator[Said]:
        probabilities = self.wanted.probabilities
        try:
            for entry, _, _ in group:
                self._check_room(entry)
            said = self.predictor(
                [image_hwc for _, _, image_hwc in group], with_probabilities=probabilities
            )
        except (ReconetError, MemoryError, RuntimeError) as error:
            if not _is_expected(error):
                raise
            if len(group) > 1:  # who was it?
                for one in group:
                    yield from self._group([one])
            else:
                yield self._failed(group[0][1], error)
            return
        for (entry, path, _), prediction in zip(group, said, strict=True):
            yield self._write(entry, path, prediction)

    def _check_room(self, entry: Entry) -> None:
        """Labels are made in bands; all probabilities at once need to fit."""
        budget = self.predictor.protocol.budget_bytes
        needed = 4 * len(self.predictor.classes) * entry.height * entry.width
        if self.wanted.probabilities and needed > budget:
            raise DataError(
                f"its probabilities need {needed / 2**30:.1f} GiB, and --memory gives "
                f"{budget / 2**30:.1f}; give more, or leave out --probabilities."
            )

    def _write(self, entry: Entry, path: Path, prediction: Prediction) -> Said:
        self.journal.add(entry)
        try:
            outputs = write_outputs(self.plan.out, entry.stem, prediction, self.wanted.kinds())
        except (ReconetError, OSError, MemoryError) as error:
            return self._failed(path, error)
        entry = replace(entry, run=self.plan.run, outputs=outputs, shares=prediction.shares())
        self.journal.add(entry)
        self.tick()
        return path, {"status": "done", **_told(entry)}

    def _failed(self, path: Path, error: BaseException) -> Said:
        self.tick()
        reason = str(error) or type(error).__name__
        if isinstance(error, MemoryError) or "allocate" in reason:
            reason = "there is not enough memory for it."
        return path, {"status": "failed", "error": reason}


def _is_expected(error: BaseException) -> bool:
    """A picture's fault, or the machine's; any other RuntimeError is a bug."""
    text = str(error)
    return not isinstance(error, RuntimeError) or "allocate" in text or "out of memory" in text


def _told(entry: Entry) -> dict[str, Any]:
    """What is worth telling a program that asks."""
    names = ("width", "height", "outputs", "shares", "note")
    return {name: value for name in names if (value := getattr(entry, name))}


def _finish(
    plan: Plan, predictor: Predictor, said: dict[Path, dict[str, Any]], processes: int
) -> Outcome:
    journals = [journal_path(plan.out, plan.token, rank) for rank in range(processes)]
    write_record(plan.out, read_record(plan.out), journals)
    pictures = []
    for path, _ in plan.pictures:
        entry = plan.record.get(relative(path, plan.out))
        fate = said.get(path) or {"status": "skipped", **(_told(entry) if entry else {})}
        pictures.append({"source": str(path), **fate})
    return Outcome(
        out=plan.out,
        network=plan.network,
        how=predictor.network.how,
        protocol=str(predictor.protocol),
        pictures=pictures,
    )
