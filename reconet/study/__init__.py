"""Repeat the paper's comparisons: train variants of a recipe with several seeds, with intervals.

study.py          a study from its plan to its report
variants.py       the studies and their variants, as tables
trial.py          one trial (one variant, one seed) and its files
features.py       compute the cached features that trials share, before they start
run_trial.py      train and score one trial, in a process of its own
life.py           score a network with its attention replaced by a mean
scheduler.py      run trials side by side
study_file.py     study.json, which says what a directory was made with
result.py         the results as rows, with means and intervals over seeds
results_file.py   results.json: all results in one file, to keep, to share and to add to
tables.py         the rows as tables of text
stats.py          means, intervals, paired differences
spread.py         one spread for all variants, and the intervals that it gives
spectrum.py       how many ranks an attention uses
paper_scores.py   the paper's scores for the same questions
plots.py, page.py the results as figures, as one HTML file and as Markdown
"""

from reconet.study.result import StudyResult
from reconet.study.results_file import add_results, read_results, write_results
from reconet.study.study import (
    StudyPlan,
    default_jobs,
    make_plan,
    open_study,
    prepare_study,
    run_study,
)
from reconet.study.variants import STUDIES, Study

__all__ = [
    "STUDIES",
    "Study",
    "StudyPlan",
    "StudyResult",
    "add_results",
    "default_jobs",
    "make_plan",
    "open_study",
    "prepare_study",
    "read_results",
    "run_study",
    "write_results",
]
