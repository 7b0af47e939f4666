"""Features of a frozen backbone, computed once and kept on disk.

cache.py      find the features of a split, or compute them; open_features() is the door
projection.py fit the projection of a network, or take it from the cache
room.py       whether the disk has room for all features
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
from reconet.cache.cache import find_store, open_features
from reconet.cache.confusion import count_feature_confusion
from reconet.cache.manage import clear_cache, list_cache
from reconet.cache.projection import fit_projection
from reconet.cache.room import check_room, free_bytes
from reconet.cache.store import LABEL, Part, Store, StoreGroup
from reconet.cache.views import TrainingViews, WholeImages
from reconet.system.user_cache import cache_root

__all__ = [
    "LABEL",
    "FeatureBatch",
    "Part",
    "Store",
    "StoreGroup",
    "TrainingViews",
    "WholeImages",
    "cache_root",
    "check_room",
    "clear_cache",
    "count_feature_confusion",
    "feature_batches",
    "find_store",
    "fit_projection",
    "free_bytes",
    "list_cache",
    "open_features",
]
