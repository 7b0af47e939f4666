"""Recompute the paper's two cost tables, by the paper's rule and by the uniform count.

Modules are counted as their authors published them. Some printed numbers need a changed network or
a changed way of counting. Such a number has a row of its own, whose note states the assumption.
Numbers that nothing reproduces are marked, with the number of the published network.

    tables.py          all rows of both tables
    module_table.py    the table of modules
    network_table.py   the table of networks, and the same heads by one rule
    table_row.py       one row of a table
    counting_rule.py   what the paper counts
    extra_modules.py   modules that only these tables need
    claims.py          what the paper says about cost, beside the uniform count
"""

from reconet.cost.paper.claims import Claim, paper_claims
from reconet.cost.paper.network_table import HeadCost, head_costs
from reconet.cost.paper.table_row import PaperRow
from reconet.cost.paper.tables import paper_rows

__all__ = [
    "Claim",
    "HeadCost",
    "PaperRow",
    "head_costs",
    "paper_claims",
    "paper_rows",
]
