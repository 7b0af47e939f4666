"""The label of pixels that have none."""

IGNORE = 255  # not -1: label files are 8-bit images, and 255 survives being written to one
