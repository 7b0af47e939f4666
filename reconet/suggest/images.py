"""The images that are ranked: files without labels, or a split with masks."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reconet.data.dataset import Dataset, DatasetInfo, FileDataset, Pair, Sample
from reconet.data.images.read import read_mask
from reconet.data.loader import Skipped, samples
from reconet.inference.folder.find import find_images
from reconet.models.network_info import NetworkInfo
from reconet.system.distributed import Processes
from reconet.system.progress import Progress


@dataclass(kw_only=True)
class Outcome:
    """What happened on the way, for notes and JSON."""

    notes: list[str] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)  # name and reason

    def skip(self, name: str, reason: str) -> None:
        """Record an image that is left out."""
        self.skipped.append({"name": name, "reason": " ".join(reason.split())})


def unlabelled_images(arguments: Sequence[str], info: NetworkInfo) -> FileDataset:
    """Return the images that files, folders, globs and lists name, as a dataset without masks."""
    found = find_images(arguments)
    about = DatasetInfo(
        name="images", title="", classes=info.classes, palette=info.palette, splits={"new": None}
    )
    pairs = [Pair(os.path.relpath(path, found.root), path, None) for path in found.paths]
    return FileDataset(info=about, split="new", pairs=pairs, read_label=read_mask, upright=True)


def without(images: FileDataset, known: Dataset) -> FileDataset:
    """Leave out images that are in a dataset too."""
    if not isinstance(known, FileDataset):
        return images
    there = {os.path.realpath(pair.image) for pair in known.pairs}
    kept = [pair for pair in images.pairs if os.path.realpath(pair.image) not in there]
    return FileDataset(**(vars(images) | {"pairs": kept}))


def read_all(
    dataset: Dataset, processes: Processes, workers: int, outcome: Outcome, progress: Progress
) -> Iterator[tuple[int, Sample]]:
    """Yield the images of this process with their indices. Broken ones are named and left out.

    If one process fails otherwise, all do.
    """
    indices = range(processes.rank, len(dataset), processes.size)
    some = samples(
        dataset, rank=processes.rank, processes=processes.size, workers=workers, on_error="skip"
    )
    with processes.together():
        for index, sample in zip(indices, some, strict=True):
            progress.advance()
            if isinstance(sample, Skipped):
                outcome.skip(*sample)
                where = "" if sample.name in sample.reason else f"{sample.name}: "
                progress.note(f"left out: {where}{' '.join(sample.reason.split())}")
                continue
            yield index, sample


def files_of(dataset: Dataset, index: int) -> dict[str, str]:
    """Return the files of an image, if it has some."""
    if not isinstance(dataset, FileDataset):
        return {}
    _, image, mask = dataset.pairs[index]
    files: dict[str, Path | None] = {"image": image, "mask": mask}
    return {kind: str(path) for kind, path in files.items() if path is not None}
