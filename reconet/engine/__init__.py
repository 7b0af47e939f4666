"""Training: one process or many, exactly resumable.

train.py         the loop, a generator of steps
optim.py         what moves the weights, and their running mean
distributed.py   batch norm over all processes
setup.py         from a recipe to what the loop needs
memory.py        whether a step will fit
checkpoint.py    what a run keeps to go on
rundir.py        the files of a run, and who may write them
stop.py          signals that ask to stop
display.py       how a training looks in a terminal
run.py           the shell around the loop, which brings all of them together
"""
