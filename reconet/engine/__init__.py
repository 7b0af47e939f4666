"""Training: one process or many, exactly resumable.

train.py is the loop, a generator of steps; optim.py, distributed.py and checkpoint.py are what it
needs; run.py is the shell around it, with files, signals and a progress bar.
"""
