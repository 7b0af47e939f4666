"""Check every image and mask of a dataset, before a training reads them.

check.py    check_dataset, check_splits: open splits, gather facts, find what is wrong
gather.py   what is to be known about one image and its mask, in worker processes
find.py     findings: files, sizes, copies, labels. Each is a pure function of facts
propose.py  what the numbers or colours of masks usually mean
report.py   findings as values, as JSON, as text

A proposal is a setting that mends a finding, if its condition holds.
"""

from reconet.data.check.check import check_dataset, check_splits
from reconet.data.check.report import CheckReport, Finding, Listing, Proposal

__all__ = ["CheckReport", "Finding", "Listing", "Proposal", "check_dataset", "check_splits"]
