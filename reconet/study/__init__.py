"""Repeat the paper's comparisons: train variants of a recipe with several seeds, with intervals.

variants.py    the studies and their variants, as tables, with the paper's scores
trial.py       one trial (one variant, one seed), and the files of a study
study.py       a study from its plan to its report
scheduler.py   run trials side by side
run_trial.py   train, score and measure one trial, in a process of its own
results.py     means, intervals and differences over seeds
plots.py       the results as figures
page.py        the results as tables, as Markdown and as one HTML file
"""

from reconet.study.results import Estimate, StudyResult, difference, estimate
from reconet.study.study import (
    StudyPlan,
    default_jobs,
    make_plan,
    open_study,
    prepare_study,
    run_study,
)
from reconet.study.trial import add_results, read_results, write_results
from reconet.study.variants import STUDIES, Study

__all__ = [
    "STUDIES",
    "Estimate",
    "Study",
    "StudyPlan",
    "StudyResult",
    "add_results",
    "default_jobs",
    "difference",
    "estimate",
    "make_plan",
    "open_study",
    "prepare_study",
    "read_results",
    "run_study",
    "write_results",
]
