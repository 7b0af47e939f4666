"""Find the fastest way to run a network that keeps its labels. See docs/predict.md.

    inference/fast ->  python -m reconet.fast  ->  a folder  ->  inference/fast

choose.py     measure all ways, and keep the fastest that agrees with eager fp32
ways.py       WAYS: the ways that are tried
images.py     images to calibrate, to time and to compare on
store.py      keep the choice, in one move
__main__.py   the process that inference/fast starts, so that no import points upwards

To add a way, write a function in ways.py and add one line to WAYS.
"""

from reconet.fast.choose import Job, choose_fastest

__all__ = ["Job", "choose_fastest"]
