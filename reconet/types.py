"""Name the types that every part of the package shares.

An image is RGB, a label is the class number of a pixel, a mask is a file of labels.
"""

import numpy as np
from numpy.typing import NDArray

IGNORE = 255  # the label of void pixels; not -1: masks are 8-bit images and can hold 255
MAX_CLASSES = 254  # what is left of 8 bits beside void and the mark of illegal numbers

MEAN_COLOUR = (124, 116, 104)  # ImageNet's mean in RGB: padding that networks see as about zero

Image = NDArray[np.uint8]  # hwc, RGB
Label = NDArray[np.uint8]  # hw
Colour = tuple[int, int, int]
Palette = tuple[Colour, ...]
