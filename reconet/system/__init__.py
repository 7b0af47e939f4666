"""The machine: files, paths, processes, hardware, time. Nothing here knows about segmentation.

files.py        write files so that nobody reads half of one
paths.py        shorten paths, so that a shared file does not tell where somebody keeps things
run_files.py    names of the files in a run directory
distributed.py  many processes as one
hardware.py     what this machine is, and what its CPU can really do
timing.py       times of calls that take turns
progress.py     report how far a long task is
"""
