"""The paper's evidence as one command: a grid of variants and seeds on any recipe, with intervals.

grids.py      which variants a study has: tables
stats.py      means, intervals, paired differences: pure
paper.py      the paper's numbers for the same questions
spectrum.py   how many ranks an attention uses
cell.py       one training, scored: what a child process does
grid.py       all of them, side by side, resumable
run.py        a study from its plan to its report
result.py     what they came to, as rows
plots.py, page.py   the same as images, as one HTML file, as Markdown
"""
