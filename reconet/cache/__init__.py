"""Features of a frozen backbone, computed once and kept on disk.

cache.py      find the features of a split, or compute them; open_features() is the door
store.py      arrays of many entries in memory-mapped files, with checksums
lock.py       who builds a store, and who uses it
key.py        name a store by what is in it
views.py      what each entry is made from
build.py      fill a store, by many processes
batches.py    batches of features, for training
confusion.py  scores from features, for validation
manage.py     list what is there, and clear it
"""

from reconet.cache.batches import FeatureBatch, feature_batches
from reconet.cache.cache import find_store, fit_projection, open_features
from reconet.cache.confusion import count_feature_confusion
from reconet.cache.manage import clear_cache, list_cache
from reconet.cache.store import Part, Store, StoreGroup
from reconet.cache.views import TrainingViews, WholeImages
from reconet.system.user_cache import cache_root

__all__ = [
    "FeatureBatch",
    "Part",
    "Store",
    "StoreGroup",
    "TrainingViews",
    "WholeImages",
    "cache_root",
    "clear_cache",
    "count_feature_confusion",
    "feature_batches",
    "find_store",
    "fit_projection",
    "list_cache",
    "open_features",
]
