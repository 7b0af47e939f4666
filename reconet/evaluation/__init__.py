"""Score trained networks on datasets.

evaluate.py           evaluate a run on a split of its dataset
confusion.py          count one confusion matrix over all images and all processes
metrics.py            compute scores from a confusion matrix
benchmarks.py         the scores that each benchmark is quoted by
submit.py             files for the test servers of datasets
prediction_sheet.py   one image that shows some predictions beside the truth
"""

from reconet.evaluation.confusion import StoppedError, count_confusion, count_model_confusion
from reconet.evaluation.evaluate import (
    Evaluation,
    check_classes,
    evaluate,
    no_labels_error,
    open_labelled,
)
from reconet.evaluation.prediction_sheet import write_prediction_sheet

__all__ = [
    "Evaluation",
    "StoppedError",
    "check_classes",
    "count_confusion",
    "count_model_confusion",
    "evaluate",
    "no_labels_error",
    "open_labelled",
    "write_prediction_sheet",
]
