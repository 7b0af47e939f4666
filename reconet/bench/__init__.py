"""Measure speed and memory. All candidates of a benchmark run in turns, and ratios are compared.

modules.py    the cores of all contexts on one feature map, as a table or an image
model.py      one network in every way that this machine can run it
train.py      training steps in fp32 and in bf16
data.py       loading and augmenting training images

What measures only this package is in benchmarks/ at the root of the repository.
"""
