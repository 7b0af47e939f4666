"""One trial of a study: one variant with one seed, in a run directory of its own.

result.json    what a finished trial found
failure.json   why a trial failed
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from reconet.engine import read_log
from reconet.errors import TrainingError, first_line
from reconet.models.liveness import Liveness
from reconet.recipes.schema import Recipe
from reconet.study.spectrum import Spectrum
from reconet.study.study_file import is_study
from reconet.study.variants import Variant
from reconet.system.files import write_text
from reconet.system.precision import Precision
from reconet.system.reading import read_file
from reconet.system.run_files import BEST, LAST

RESULT, FAILURE = "result.json", "failure.json"
IMPORT = "--import="  # before a module of the user, in the arguments of a trial
FORMAT = 1
LIVENESS = Liveness._fields  # the figures of a validation that are about the attention


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """The result of one trial: the network at its last step, not the best of many."""

    variant: str
    seed: int
    steps: int
    protocol: str
    figures: dict[str, float]
    params: int
    macs: int  # of one crop, in inference
    images_per_second: float | None  # median in training; None for networks scored again
    seconds: float | None  # of training, at that speed
    trajectory: list[dict[str, float]]  # mIoU and liveness at every validation
    spectrum: Spectrum | None  # of contexts with a low-rank tensor
    environment: dict[str, str]
    miou_with_mean: float | None = None  # the tensor replaced by its mean over the scored images
    precision: Precision | None = None  # of training; None: that of the study's recipe


_RESULT = TypeAdapter(TrialResult)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One variant with one seed, and the directory that holds its run."""

    variant: Variant
    seed: int
    recipe: Recipe
    directory: Path
    network: Path | None  # the run whose network is scored; None: train one

    @property
    def name(self) -> str:
        """Return its name for messages, such as "fcn seed 0"."""
        return f"{self.variant.name} seed {self.seed}"

    @property
    def output_file(self) -> Path:
        """Return the file that holds the output of its process."""
        return self.directory.with_name(f"{self.directory.name}.out")

    @property
    def recipe_file(self) -> Path:
        """Return the file with its recipe.

        It is beside the run directory, which must be empty when a training begins.
        """
        return self.directory.with_name(f"{self.directory.name}.recipe.json")

    def drop_networks(self) -> None:
        """Delete the files that hold the whole network. The result needs none of them."""
        for name in (LAST, BEST):
            (self.directory / name).unlink(missing_ok=True)

    def is_finished(self) -> bool:
        """Return whether it has a result."""
        return (self.directory / RESULT).is_file()

    def failure(self) -> str | None:
        """Return why it failed, or None if it did not."""
        path = self.directory / FAILURE
        if self.is_finished() or not path.is_file():
            return None
        try:
            return str(json.loads(read_file(path, within=self.directory))["error"])
        except (OSError, ValueError, KeyError):
            return f"{path} gives no reason"

    def step(self) -> int:
        """Return the last step in its log."""
        return max((line["step"] for line in read_log(self.directory)), default=0)


def make_trials(
    variants: Sequence[Variant], base: Recipe, seeds: Sequence[int], out: Path
) -> list[Trial]:
    """List all trials seed by seed, so that a study stopped early has compared all variants.

    If train.init_from is the folder of a study, each starts from the same variant and seed there.
    """
    trials = []
    for seed in seeds:
        for variant in variants:
            other = variant.network_of
            trials.append(
                Trial(
                    variant=variant,
                    seed=seed,
                    recipe=_start_from_study(variant.recipe(base, seed), variant),
                    directory=place_of_trial(out, variant.name, seed),
                    network=None if other is None else place_of_trial(out, other, seed),
                )
            )
    return trials


def place_of_trial(study: Path, variant: str, seed: int) -> Path:
    """Return the run directory of a trial in the directory of a study."""
    return study / variant / f"seed{seed}"


def _start_from_study(recipe: Recipe, variant: Variant) -> Recipe:
    train = recipe.train
    if train.init_from is None or not is_study(train.init_from):
        return recipe
    start = place_of_trial(train.init_from.resolve(), variant.name, train.seed)
    return recipe.model_copy(update={"train": train.model_copy(update={"init_from": start})})


def write_result(directory: Path, result: TrialResult) -> None:
    """Write result.json, which marks a trial as finished."""
    write_text(directory / RESULT, json.dumps({"format": FORMAT, **asdict(result)}, indent=1))


def read_result(directory: Path) -> TrialResult | None:
    """Read the result of a trial, or return None if it is not finished."""
    path = directory / RESULT
    if not path.is_file():
        return None
    try:
        values = json.loads(read_file(path, within=directory))
        if values.pop("format") != FORMAT:
            raise ValueError("another format")
        return parse_result(values)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrainingError(
            f"{path} is damaged ({first_line(error)}). Remove it to run the trial again."
        ) from error


def parse_result(values: object) -> TrialResult:
    """Make a result of plain values. Raises a ValueError if they are none."""
    return _RESULT.validate_python(values)


def write_failure(directory: Path, reason: str) -> None:
    """Write failure.json, which says why a trial failed."""
    write_text(directory / FAILURE, json.dumps({"error": reason}))
