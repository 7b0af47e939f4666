"""Count what a network costs, without running it.

counter.py     parameters, multiply-adds and memory of networks and modules
paper.py       the paper's cost tables, recomputed (a door of its own)
paper_rule.py  what the paper counts
"""

from reconet.cost.counter import (
    SMALLEST_INPUT,
    Cost,
    ModelCost,
    PeakMemory,
    model_cost,
    module_cost,
    recipe_costs,
)

__all__ = [
    "SMALLEST_INPUT",
    "Cost",
    "ModelCost",
    "PeakMemory",
    "model_cost",
    "module_cost",
    "recipe_costs",
]
