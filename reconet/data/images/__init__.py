"""Read, write and draw images and masks.

read.py             read_image, read_mask, read_mat, and upright images
write.py            masks as PNGs
draw.py             colours, overlays, sheets
augmented_sheet.py  what a training sees
indexed_png.py      read plain PNGs faster than Pillow
jpeg_header.py      the size of a JPEG
"""
