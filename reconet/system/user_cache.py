"""Find the folder where this package keeps what it can make or fetch again."""

import os
from pathlib import Path

ROOT_VARIABLE = "RECONET_CACHE"


def cache_root() -> Path:
    """Return the folder of the cache: $RECONET_CACHE, or reconet in the user's cache folder."""
    if os.environ.get(ROOT_VARIABLE):
        return Path(os.environ[ROOT_VARIABLE]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "reconet"
