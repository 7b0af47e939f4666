"""Report on runs: one HTML file with everything in it, which loads nothing from elsewhere.

html.py         fill the templates of pages; explain, suggest and study use it too
report.py       write_report(): read runs, fill the page, write it
run_results.py  read a run directory
templates/      the pages and their style
"""

from reconet.report.report import write_report

__all__ = ["write_report"]
