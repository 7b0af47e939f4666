"""Write predictions in the format of a test server. Every file appears in one move.

The formats are declared in the files of the datasets.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from reconet.data import DATASETS
from reconet.data.entry import SubmissionFormat
from reconet.errors import RecipeError
from reconet.system.files import check_output_folder, write_atomic
from reconet.types import Label


@dataclass(frozen=True, kw_only=True)
class Submission:
    """Predictions of a split, as files. Any process may `put`; one of them calls `finish`."""

    directory: Path
    split: str
    format: SubmissionFormat

    def put(self, name: str, label_hw: Label) -> None:
        """Write the prediction for one image."""
        content = self.format.encode(label_hw)
        write_atomic(self.path(name), lambda file: file.write(content))

    def path(self, name: str) -> Path:
        return self.directory / self.format.path.format(split=self.split, name=name)

    def finish(self, names: Sequence[str]) -> Path:
        """Return what to send, once all images have been put."""
        if not self.format.archive:
            return self.path("").parent
        target = self.directory / self.format.archive.format(split=self.split)
        write_atomic(target, lambda file: self._zip(file, names))
        shutil.rmtree(self.path("").parent)
        return target

    def _zip(self, file: IO[bytes], names: Sequence[str]) -> None:
        with ZipFile(file, "w", ZIP_STORED) as archive:
            for name in names:
                path = self.path(name)
                archive.writestr(ZipInfo(path.name), path.read_bytes())  # no dates: same bytes


def open_submission(dataset: str, split: str, directory: Path) -> Submission:
    """Return a submission into `directory`, for a dataset that has a test server."""
    known = {name: entry.submission for name, entry in DATASETS.items() if entry.submission}
    if dataset not in known:
        raise RecipeError(
            f"{dataset} has no test server that --submit knows; {', '.join(sorted(known))} have."
        )
    check_output_folder(directory, option="--submit")
    return Submission(directory=directory, split=split, format=known[dataset])
