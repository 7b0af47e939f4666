"""Score trained networks on datasets.

evaluate.py           evaluate a run on a split of its dataset, files for test servers
intervals.py          95 % intervals: a bootstrap over images
calibration.py        whether a confidence of 0.9 means 90 %, and a temperature that mends it
compare.py            compare networks on the same images
confusion.py          count one confusion matrix over all images and all processes
metrics.py            scores from a confusion matrix, as each benchmark is quoted by
kept_validation.py    what a run keeps of its best validation: counts, and some images
"""

from reconet.evaluation.compare import Comparison, Difference, compare
from reconet.evaluation.confusion import StoppedError, count_confusion, count_model_confusion
from reconet.evaluation.evaluate import (
    Evaluation,
    check_classes,
    evaluate,
    no_labels_error,
    open_labelled,
    open_submission,
)
from reconet.evaluation.intervals import rough
from reconet.evaluation.kept_validation import (
    KeptImage,
    best_evaluation,
    best_images,
    keep_predictions,
    keep_validation,
)

__all__ = [
    "Comparison",
    "Difference",
    "Evaluation",
    "KeptImage",
    "StoppedError",
    "best_evaluation",
    "best_images",
    "check_classes",
    "compare",
    "count_confusion",
    "count_model_confusion",
    "evaluate",
    "keep_predictions",
    "keep_validation",
    "no_labels_error",
    "open_labelled",
    "open_submission",
    "rough",
]
