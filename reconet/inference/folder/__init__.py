"""Predict many images, and write the results as files in a folder.

predict.py        predict all images, in one process or several
find.py           find the images that the arguments name
output_names.py   name the output files, so that no two images share one
record.py         record which images are done, so that a run can resume
plan.py           decide what is to be done, and by which process
worker.py         predict the images of one process
write.py          write the files of one image
"""

from reconet.inference.folder.predict import FolderResult, predict_folder

__all__ = ["FolderResult", "predict_folder"]
