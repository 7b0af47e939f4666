"""Work with the machine: files, processes, hardware and time. Knows nothing of segmentation.

Other packages import these modules one by one, so that `import reconet` stays quick.

files.py        write files so that nobody ever reads half of one
paths.py        shorten paths before a file is shared
user_cache.py   the folder for what can be made or fetched again
locks.py        lock files against other processes
run_files.py    names of the files in a run directory
distributed.py  let many processes work as one
hardware.py     describe this machine and find out what its CPU can do
timing.py       time several calls side by side
own_code.py     import modules of the user
progress.py     the protocol by which long tasks report progress
"""
