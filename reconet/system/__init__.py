"""Work with the machine: files, processes, hardware and time. Knows nothing of segmentation.

Other packages import these modules one by one, so that `import reconet` stays quick.

reading.py      open ordinary files only, no larger than expected
files.py        write files so that nobody ever reads half of one, and lock them
tensor_files.py the same tensors always give the same bytes
run_files.py    names of the files in a run directory
user_cache.py   the folder for what can be made or fetched again
distributed.py  let many processes work as one
hardware.py     what this machine is and can do, and the number formats
timing.py       time several calls side by side
own_code.py     import modules of the user
progress.py     the protocol by which long tasks report progress
readable.py     counts, names and paths for people
"""
