"""Remove ranks from a trained network and measure what that costs: prune_run() in prune.py."""

from reconet.prune.prune import PruneResult, best_ranks, keep_ranks, prune_run, rank_importance

__all__ = ["PruneResult", "best_ranks", "keep_ranks", "prune_run", "rank_importance"]
