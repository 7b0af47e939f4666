"""One file per dataset: classes, files, labels, licence, conversion, and what its benchmark wants.

Each file ends with its declaration, a DatasetEntry. The table is DATASETS in data/registry.py.
folder.py is for your own images. folder_masks.py has its options, reads class
names, and folder_val.py divides images into train and val.
"""
