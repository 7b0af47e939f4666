"""Recompute the paper's two cost tables, by the paper's rule and by the uniform count.

Modules are counted as their authors published them. Some printed numbers need a changed network or
a changed way of counting. Such a number has a row of its own, whose note states the assumption.
Numbers that nothing reproduces are marked, with the number of the published network.

    tables.py    the rows of both tables, and what the paper says about cost
    rule.py      what the paper counts
    modules.py   modules that only these tables need
"""

from reconet.cost.paper.rule import PaperRow
from reconet.cost.paper.tables import Claim, HeadCost, head_costs, paper_claims, paper_rows

__all__ = [
    "Claim",
    "HeadCost",
    "PaperRow",
    "head_costs",
    "paper_claims",
    "paper_rows",
]
