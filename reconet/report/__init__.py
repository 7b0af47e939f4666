"""Report on runs: one HTML file with everything in it, which loads nothing from elsewhere.

html/           the kit for such pages; explain and study build their pages with it too
report.py       write_report(): read runs, compose the page, write it
run_results.py  read a run directory, and score its best network; the only part that computes
contents.py     the order of sections, for one run or for several
sections.py     the sections of a report: runs in, markup out
image_rows.py   an image, its labels, the predictions and their errors, side by side
"""

from reconet.report.report import write_report

__all__ = ["write_report"]
