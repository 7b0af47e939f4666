"""One process at work: images are read, shown to the network, and their files written."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from reconet.data.images.read import read_upright
from reconet.errors import DataError, ReconetError
from reconet.inference.folder.plan import Job, Plan, Wanted, stamp
from reconet.inference.folder.record import Entry, Journal, journal_path, relative
from reconet.inference.folder.write import write_outputs
from reconet.inference.predictor import Prediction, Predictor
from reconet.types import Image

Said = tuple[Path, dict[str, Any]]  # what became of an image


class Worker:
    """Predicts chunks of images and writes their files; says of each what became of it."""

    def __init__(
        self, plan: Plan, predictor: Predictor, wanted: Wanted, rank: int, tick: Callable[[], None]
    ) -> None:
        self.plan, self.predictor, self.wanted, self.tick = plan, predictor, wanted, tick
        self.journal = Journal(journal_path(plan.out, plan.token, rank))

    def predict(self, chunk: list[Job]) -> Iterator[Said]:
        """Small images of one size go together; others at once, so that none waits in memory."""
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
        size, mtime_ns = stamp(path)
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
        return path, {"status": "done", **told(entry)}

    def _failed(self, path: Path, error: BaseException) -> Said:
        self.tick()
        reason = str(error) or type(error).__name__
        if isinstance(error, MemoryError) or "allocate" in reason:
            reason = "there is not enough memory for it."
        return path, {"status": "failed", "error": reason}


def _is_expected(error: BaseException) -> bool:
    """An image's fault, or the machine's; any other RuntimeError is a bug."""
    text = str(error)
    return not isinstance(error, RuntimeError) or "allocate" in text or "out of memory" in text


def told(entry: Entry) -> dict[str, Any]:
    """What is worth telling a program that asks."""
    names = ("width", "height", "outputs", "shares", "note")
    return {name: value for name in names if (value := getattr(entry, name))}
