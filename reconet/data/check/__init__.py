"""Check every image and mask of a dataset, before a training reads them.

check.py      check_dataset, check_splits: facts of all files, then findings
facts.py      what is to be known about one image and its mask, in worker processes
splits.py     findings about splits: not there, or not used
files.py      findings about files: unreadable, missing, of other sizes, copies
labels.py     findings about labels: outside the classes, void, empty classes
proposals.py  what the numbers or colours of masks usually mean
report.py     findings as values, as JSON, as text

A finding is a pure function of facts. A proposal is a setting that mends a finding, if its
condition holds.
"""

from reconet.data.check.check import check_dataset, check_splits
from reconet.data.check.report import CheckReport, Finding, Listing, Proposal

__all__ = ["CheckReport", "Finding", "Listing", "Proposal", "check_dataset", "check_splits"]
