"""Predict many images, and write the results as files in a folder.

predict.py   predict all images, in one process or several
find.py      find the images that the arguments name
record.py    name the output files, and record which images are done, so that a run can resume
worker.py    predict the images of one process, and write their files
"""

from reconet.inference.folder.predict import FolderResult, predict_folder

__all__ = ["FolderResult", "predict_folder"]
