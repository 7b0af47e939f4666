"""Declare a dataset: one record, in the dataset's own file, with all that the package knows of it.

The table of all records is DATASETS in registry.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from reconet.data.dataset import Dataset, DatasetInfo
from reconet.data.prepare.run import PreparePlan
from reconet.recipes.schema import Settings
from reconet.types import Label

Options = Mapping[str, object]  # as in data.options, not checked yet


class UsualScores(Protocol):
    """The scores from which a dataset derives its extra ones. All are fractions in [0, 1]."""

    @property
    def mean_iou(self) -> float: ...
    @property
    def pixel_accuracy(self) -> float: ...
    def mean_iou_without(self, *classes: str) -> float:
        """Average over the other classes. Pixels of `classes` are not scored.

        Where another class is true, a prediction of `classes` is still an error.
        """
        ...


class ExtraScore(NamedTuple):
    """A score that only some benchmarks use, and its label in tables."""

    label: str
    compute: Callable[[UsualScores], float]


@dataclass(frozen=True, kw_only=True)
class SubmissionFormat:
    """The files that a test server takes."""

    path: str  # of one image, with {split} and {name}
    encode: Callable[[Label], bytes]  # the content of that file
    archive: str = ""  # name of the zip file, with {split}, if the server wants one


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """A dataset: facts about it, how to open it, and what its benchmark asks for."""

    info: DatasetInfo
    open: Callable[..., Dataset]  # (root, split), and the options as a third if there are any
    options: type[Settings] | None = None  # checks data.options
    complete: Callable[[Path, Options], Options] | None = None  # adds options that the root tells
    prepare: Callable[[Path, Path | None], PreparePlan] | None = None  # (root, source)
    converts: str = ""  # what `prepare` makes of which files
    needs_root: bool = True
    own_lists: bool = False  # a list of images in its files is a split too, whatever its name
    folder: str = ""  # under $RECONET_DATA; by default the name
    terms: str = ""  # of the training data, in a model card; by default the licence
    absent_classes: tuple[str, ...] = ()  # in no test image: not part of the mean IoU
    extra_scores: Mapping[str, ExtraScore] = field(default_factory=dict)
    secret_splits: tuple[str, ...] = ()  # whose labels only the test server has
    submission: SubmissionFormat | None = None
