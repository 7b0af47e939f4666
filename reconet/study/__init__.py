"""Repeat the paper's comparisons: train variants of a recipe with several seeds, with intervals.

variants.py    the studies and their variants, as tables, with the paper's scores
trial.py       one trial (one variant, one seed), and the files of a study
study.py       a study from its plan to its report, its trials side by side
run_trial.py   train, score and measure one trial, in a process of its own
results.py     means, intervals and differences over seeds
plots.py       the results as figures
page.py        the results as tables, as Markdown and as one HTML file
"""

from reconet.study.results import (
    Estimate,
    StudyResult,
    collect_result,
    common_spread,
    conditions,
    difference,
    estimate,
    probability_of_spreads,
)
from reconet.study.study import (
    StudyPlan,
    default_jobs,
    make_plan,
    open_study,
    prepare_study,
    run_study,
    run_trials,
)
from reconet.study.trial import (
    Trial,
    add_results,
    is_study,
    lock_study,
    make_trials,
    read_results,
    read_study,
    write_results,
)
from reconet.study.variants import STUDIES, Study, choose_baseline, choose_variants

__all__ = [
    "STUDIES",
    "Estimate",
    "Study",
    "StudyPlan",
    "StudyResult",
    "Trial",
    "add_results",
    "choose_baseline",
    "choose_variants",
    "collect_result",
    "common_spread",
    "conditions",
    "default_jobs",
    "difference",
    "estimate",
    "is_study",
    "lock_study",
    "make_plan",
    "make_trials",
    "open_study",
    "prepare_study",
    "probability_of_spreads",
    "read_results",
    "read_study",
    "run_study",
    "run_trials",
    "write_results",
]
