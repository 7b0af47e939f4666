"""The built-in dataset `scenes`.

dataset.py   the declaration and its options
generate.py  compose a scene: facts, layout, labels
paint.py     paint one thing
"""
