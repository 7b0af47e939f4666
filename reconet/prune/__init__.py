"""Remove ranks from a trained network and measure what that costs.

prune.py     prune a run: calibrate, cut, score, measure, save
ranks.py     which ranks matter, and the network without the others: pure
measure.py   networks side by side: size, products, time
"""

from reconet.prune.prune import PruneResult, prune_run

__all__ = ["PruneResult", "prune_run"]
