"""Make sure that the disk has room for all features before the first of them is computed.

Entries are written through memory maps. A disk that fills up meanwhile ends the process.
"""

import shutil
from collections.abc import Iterable

from reconet.cache.store import Store
from reconet.errors import OutputError
from reconet.system.files import readable_bytes
from reconet.system.user_cache import cache_root

SPARE_BYTES = 2**28  # that stay free on the disk, or a quarter of the need if that is less


def free_bytes() -> int:
    """Return how much of the cache's disk is free."""
    root = cache_root().absolute()
    place = next(path for path in (root, *root.parents) if path.is_dir())
    return shutil.disk_usage(place).free


def check_room(stores: Iterable[Store]) -> None:
    """Raise an error if the disk has no room for the entries that these stores lack together."""
    needs = {store.directory: store.missing_bytes() for store in stores}
    need, free = sum(needs.values()), free_bytes()
    need += min(SPARE_BYTES, need // 4)
    if need > free:
        raise OutputError(
            f"the features need {readable_bytes(need)} and {cache_root()} has "
            f"{readable_bytes(free)} free; set RECONET_CACHE to another disk, or run `reconet "
            "cache clear`. Contexts that read only c4 need least."
        )
