"""reconet cache: one file per verb."""

from collections.abc import Callable

from reconet.cli.cache.clear import clear
from reconet.cli.cache.list import list_

CACHE_VERBS: dict[str, Callable[..., None]] = {"list": list_, "clear": clear}

__all__ = ["CACHE_VERBS"]
