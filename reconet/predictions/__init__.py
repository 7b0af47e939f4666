"""Predictions of many pictures as files in a folder.

find.py      which pictures are meant
names.py     what the files of each are called; never one name for two pictures
record.py    what has been predicted, so that a run may be stopped and gone on with
run.py       all together, in one process or several
"""

from reconet.predictions.run import Outcome, Wanted, predict_files

__all__ = ["Outcome", "Wanted", "predict_files"]
