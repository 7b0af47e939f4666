"""Features of a frozen backbone, computed once and kept on disk.

wanted.py      what a training reads, and the names of its stores
build.py       open_features: find features, or compute them by many processes
store.py       an array of many entries in a memory-mapped file, with checksums and locks
projection.py  fit the projection of a network, or take it from the cache
read.py        batches of features for training, and scores from features
manage.py      list what is there, and clear it
"""

from reconet.cache.build import check_room, fill, free_bytes, open_features
from reconet.cache.manage import Item, clear_cache, list_cache
from reconet.cache.projection import fit_projection
from reconet.cache.read import FeatureBatch, count_feature_confusion, feature_batches
from reconet.cache.store import LABEL, Store, lock_store, lock_unused
from reconet.cache.wanted import TrainingViews, Wanted, WholeImages, want_views, want_whole
from reconet.system.user_cache import cache_root

__all__ = [
    "LABEL",
    "FeatureBatch",
    "Item",
    "Store",
    "TrainingViews",
    "Wanted",
    "WholeImages",
    "cache_root",
    "check_room",
    "clear_cache",
    "count_feature_confusion",
    "feature_batches",
    "fill",
    "fit_projection",
    "free_bytes",
    "list_cache",
    "lock_store",
    "lock_unused",
    "open_features",
    "want_views",
    "want_whole",
]
