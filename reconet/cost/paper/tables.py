"""All rows of the paper's two cost tables."""

import torch

from reconet.cost.paper.module_table import module_rows
from reconet.cost.paper.network_table import network_rows
from reconet.cost.paper.table_row import PaperRow


def paper_rows() -> list[PaperRow]:
    """Return the rows of both tables, in the paper's order."""
    with torch.device("meta"):
        return [*module_rows(), *network_rows()]
