"""Predictions of many images as files in a folder.

find.py      which images are meant
names.py     what the files of each are called; never one name for two images
record.py    what has been predicted, so that a run may be stopped and gone on with
plan.py      what is to be done, and by which process
worker.py    one process at work
write.py     the files of one image
run.py       all together, in one process or several
"""

from reconet.inference.folder.plan import Wanted
from reconet.inference.folder.run import Outcome, predict_files

__all__ = ["Outcome", "Wanted", "predict_files"]
