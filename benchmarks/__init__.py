"""Measure this package against itself and against others: the figures of the README and the docs.

Run them from the root of the repository: `python -m benchmarks.evaluate`.

all.py         every figure of speed that the docs quote, and docs/speed.md: `make bench`
data.py        the training pipeline against one with Pillow
evaluate.py    multi-scale evaluation against a plain loop
frozen.py      training on cached features against training the whole network
processes.py   two processes of one training (docs/scale.md)
imbalance.py   losses for a rare class (docs/losses.md)
suggest.py     how many wrong masks `reconet suggest` finds (docs/own-data.md)
scenes.py      how hard the generated images are (docs/scenes.md)
"""
