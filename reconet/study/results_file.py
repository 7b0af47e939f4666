"""results.json: what all trials of a study found, in one file to keep or to share.

It tells no paths. Another machine can add it to its own study, and run only what is missing.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from reconet.engine import MAY_CHANGE
from reconet.errors import DataError, pick
from reconet.recipes.schema import Recipe
from reconet.recipes.storage import validate_recipe, without_paths
from reconet.study.study_file import check_settings, lock_study, read_study
from reconet.study.trial import (
    RESULT,
    TrialResult,
    parse_result,
    place_of_trial,
    read_result,
    write_result,
)
from reconet.study.variants import STUDIES, Study
from reconet.system.files import write_text
from reconet.system.reading import read_file

RESULTS = "results.json"
# Not every machine is fast in every precision. Each trial tells its own.
ADDED_MAY_DIFFER = MAY_CHANGE | {"train.precision"}
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class SharedResults:
    """What results.json says."""

    study: Study
    recipe: Recipe  # without paths
    trials: tuple[TrialResult, ...]


def write_results(out: Path, path: Path | None = None) -> None:
    """Write the results of all finished trials in the directory of a study."""
    name, recipe = read_study(out)
    runs = sorted(file.parent for file in out.glob(f"*/seed*/{RESULT}"))
    found = [result for run in runs if (result := read_result(run)) is not None]
    values = {
        "format": FORMAT,
        "study": name,
        "recipe": without_paths(recipe).model_dump(mode="json"),
        "trials": [asdict(with_precision(result, recipe)) for result in _in_order(found)],
    }
    write_text(path or out / RESULTS, json.dumps(values, indent=1) + "\n")


def _in_order(found: Sequence[TrialResult]) -> list[TrialResult]:
    return sorted(found, key=lambda result: (result.variant, result.seed))


def read_results(path: Path) -> SharedResults:
    """Read the results of a study. Raises an error if the file is none of ours, or damaged."""
    try:
        values = json.loads(read_file(path))
        if values["format"] != FORMAT:
            raise ValueError("another format")
        trials = [parse_result(trial) for trial in values["trials"]]
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
        trials=tuple(with_precision(trial, recipe) for trial in trials),
    )


def with_precision(trial: TrialResult, recipe: Recipe) -> TrialResult:
    """Note the precision of the study's recipe, if a trial does not tell its own."""
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
