"""Read, write and draw images and masks.

read.py    images, masks and MATLAB files, and upright images
draw.py    colours and overlays; masks as PNGs
sheets.py  pages of images: with their labels, and as a training sees them
"""
