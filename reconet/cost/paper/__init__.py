"""The paper's two cost tables, recomputed: by the paper's rule, and by the uniform one of cost.py.

Modules are counted as their authors published them. Where only a changed network or a changed way
of counting gives the printed number, that is a row of its own, and its note says what is assumed.
Where nothing does, the row says so, with the number of the published network.

    rule.py        what the paper counts
    row.py         a row of a table
    modules.py     the table of modules
    networks.py    the table of networks; the same heads by one rule
    variants.py    networks that only these tables need
    claims.py      what the paper says about cost, beside the uniform count
"""

import torch

from reconet.cost.paper.claims import Claim, paper_claims
from reconet.cost.paper.module_table import module_rows
from reconet.cost.paper.network_table import HeadCost, head_costs, network_rows
from reconet.cost.paper.table_row import Row

__all__ = [
    "Claim",
    "HeadCost",
    "Row",
    "head_costs",
    "paper_claims",
    "paper_rows",
]


def paper_rows() -> list[Row]:
    """Every row of both tables, in the paper's order."""
    with torch.device("meta"):
        return [*module_rows(), *network_rows()]
