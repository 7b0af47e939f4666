"""Score trained networks on datasets.

evaluate.py           evaluate a run on a split of its dataset, files for test servers
confusion.py          count one confusion matrix over all images and all processes
metrics.py            scores from a confusion matrix, as each benchmark is quoted by
kept_validation.py    what a run keeps of its best validation: counts, and some images
"""

from reconet.evaluation.confusion import StoppedError, count_confusion, count_model_confusion
from reconet.evaluation.evaluate import (
    Evaluation,
    check_classes,
    evaluate,
    no_labels_error,
    open_labelled,
    open_submission,
)
from reconet.evaluation.kept_validation import (
    KeptImage,
    best_evaluation,
    best_images,
    keep_predictions,
    keep_validation,
)

__all__ = [
    "Evaluation",
    "KeptImage",
    "StoppedError",
    "best_evaluation",
    "best_images",
    "check_classes",
    "count_confusion",
    "count_model_confusion",
    "evaluate",
    "keep_predictions",
    "keep_validation",
    "no_labels_error",
    "open_labelled",
    "open_submission",
]
