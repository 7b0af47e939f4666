"""One trial of a study (one variant, one seed), and the files of a study.

OUT/study.json                       which study, on which recipe
OUT/results.json                     what all finished trials found, to keep, to share and to add to
OUT/<variant>/seed<k>/               the run directory of a trial
OUT/<variant>/seed<k>/result.json    what it found, once it is finished
OUT/<variant>/seed<k>/failure.json   why it failed

results.json tells no paths. Another machine can add it to its own study, and run only what is
missing.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from reconet.engine import MAY_CHANGE, lock_directory, read_log
from reconet.errors import DataError, TrainingError, first_line, pick
from reconet.models.liveness import Liveness
from reconet.recipes import validate_recipe, without_paths
from reconet.recipes.schema import Recipe, list_settings
from reconet.study.variants import STUDIES, Study, Variant
from reconet.system.files import write_text
from reconet.system.hardware import Precision
from reconet.system.reading import SETTINGS_BYTES, read_file

STUDY, RESULTS, RESULT, FAILURE = "study.json", "results.json", "result.json", "failure.json"
FORMAT = 1
LIVENESS = Liveness._fields  # the figures of a validation that are about the attention
PARTS = ("lambda", "channel", "row", "column")  # of an attention, whose ranks in use are measured
# Not every machine is fast in every precision. Each trial tells its own.
ADDED_MAY_DIFFER = MAY_CHANGE | {"train.precision"}


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """The ranks that an attention uses, as means over images.

    Energy is the sum of squared singular values, or of the squares of lambda.
    """

    rank: int
    effective: dict[str, float]  # effective rank, by PARTS
    for_90: dict[str, float]  # number of values that hold 90 % of the energy
    for_99: dict[str, float]


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
    def recipe_file(self) -> Path:
        """Return the file with its recipe, beside the run directory, which must begin empty."""
        return self.directory.with_name(f"{self.directory.name}.recipe.json")

    @property
    def output_file(self) -> Path:
        """Return the file that holds the output of its process."""
        return self.directory.with_name(f"{self.directory.name}.out")

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
    start = base.train.init_from
    from_study = start is not None and is_study(start)

    def make(variant: Variant, seed: int) -> Trial:
        recipe, other = variant.recipe(base, seed), variant.network_of
        if start is not None and from_study:
            place = place_of_trial(start.resolve(), variant.name, seed)
            train = recipe.train.model_copy(update={"init_from": place})
            recipe = recipe.model_copy(update={"train": train})
        return Trial(
            variant=variant,
            seed=seed,
            recipe=recipe,
            directory=place_of_trial(out, variant.name, seed),
            network=None if other is None else place_of_trial(out, other, seed),
        )

    return [make(variant, seed) for seed in seeds for variant in variants]


def place_of_trial(study: Path, variant: str, seed: int) -> Path:
    """Return the run directory of a trial in the directory of a study."""
    return study / variant / f"seed{seed}"


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
        return _RESULT.validate_python(values)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrainingError(
            f"{path} is damaged ({first_line(error)}). Remove it to run the trial again."
        ) from error


def write_failure(directory: Path, reason: str) -> None:
    """Write failure.json, which says why a trial failed."""
    write_text(directory / FAILURE, json.dumps({"error": reason}))


@contextmanager
def lock_study(out: Path, study: Study, base: Recipe) -> Iterator[None]:
    """Create or reopen the directory of a study on a recipe, and lock it against a second writer.

    Raises an error if the directory holds anything else.
    """
    with lock_directory(out):
        if is_study(out):
            name, before = read_study(out)
            if name != study.name:
                raise TrainingError(f"{out} holds the study {name}. Name another --out.")
            check_settings(out, before, base)
        elif any(entry.name != ".lock" for entry in out.iterdir()):
            raise TrainingError(f"{out} is not empty and holds no study. Name another --out.")
        else:
            values = {"format": 1, "study": study.name, "recipe": base.model_dump(mode="json")}
            write_text(out / STUDY, json.dumps(values, indent=2) + "\n")
        yield


def is_study(directory: Path) -> bool:
    """Return whether a directory holds a study."""
    return (directory / STUDY).is_file()


def read_study(out: Path) -> tuple[str, Recipe]:
    """Read the name of the study and the recipe that a directory was made with."""
    path = out / STUDY
    try:
        values = json.loads(read_file(path, limit=SETTINGS_BYTES, within=out))
        return str(values["study"]), validate_recipe(values["recipe"], str(path))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{out} holds no study: cannot read {path}.") from error


def check_settings(
    where: Path, before: Recipe, now: Recipe, may_differ: Collection[str] = MAY_CHANGE
) -> None:
    """Raise an error if a directory was made with a recipe that gives other results."""
    pairs = zip(list_settings(before), list_settings(now), strict=True)
    for (key, old, _), (_, new, _) in pairs:
        if old != new and key not in may_differ:
            raise TrainingError(
                f"{where} was started with other settings: {key} is {old} there and {new} "
                "here. Name another --out."
            )


@dataclass(frozen=True, kw_only=True)
class SharedResults:
    """What results.json says."""

    study: Study
    recipe: Recipe  # without paths
    trials: tuple[TrialResult, ...]


def write_results(out: Path, path: Path | None = None) -> None:
    """Write the results of all finished trials in the directory of a study."""
    name, recipe = read_study(out)
    runs = [file.parent for file in out.glob(f"*/seed*/{RESULT}")]
    found = [result for run in runs if (result := read_result(run)) is not None]
    found.sort(key=lambda result: (result.variant, result.seed))
    values = {
        "format": FORMAT,
        "study": name,
        "recipe": without_paths(recipe).model_dump(mode="json"),
        "trials": [asdict(_with_precision(result, recipe)) for result in found],
    }
    write_text(path or out / RESULTS, json.dumps(values, indent=1) + "\n")


def read_results(path: Path) -> SharedResults:
    """Read the results of a study. Raises an error if the file is none of ours, or damaged."""
    try:
        values: Any = json.loads(read_file(path))
        if values["format"] != FORMAT:
            raise ValueError("another format")
        trials = [_RESULT.validate_python(trial) for trial in values["trials"]]
        study = str(values["study"])
        recipe = validate_recipe(values["recipe"], str(path))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{path} does not hold the results of a study; `reconet study` writes {RESULTS}."
        ) from error
    return SharedResults(
        study=pick(STUDIES, study, "study"),
        recipe=recipe,
        trials=tuple(_with_precision(trial, recipe) for trial in trials),
    )


def _with_precision(trial: TrialResult, recipe: Recipe) -> TrialResult:
    return trial if trial.precision else replace(trial, precision=recipe.train.precision)


def add_results(path: Path, out: Path, study: Study, recipe: Recipe) -> None:
    """Put the results of a file into the directory of a study, as if they were found there.

    A trial that has a result there keeps it. Raises an error if the file is of another study, or if
    its recipe differs in more than paths and precision.
    """
    shared = read_results(path)
    if shared.study.name != study.name:
        raise DataError(f"{path} holds the study {shared.study.name}, not {study.name}.")
    check_settings(path, shared.recipe, without_paths(recipe), ADDED_MAY_DIFFER)
    known = {variant.name: variant for variant in study.variants()}
    for trial in shared.trials:
        pick(known, trial.variant, f"variant of the study {study.name}, in {path}:")
    out = out.resolve()
    with lock_study(out, study, recipe):
        for trial in shared.trials:
            place = place_of_trial(out, trial.variant, trial.seed)
            if not (place / RESULT).is_file():
                write_result(place, trial)
