"""Open a network the fastest way that keeps its labels.

The package `reconet.fast` finds that way once and keeps it in a folder, beside the run or in the
user's cache. This package reads such folders.

find.py     find the choice that is kept for a network, or have one measured
choice.py   the choice, and the folders where it is kept
open.py     open a network as it was chosen

The measurement runs in a process of its own, `python -m reconet.fast`. So a crash, a kill or a lack
of memory there costs speed but no labels, and a network that was measured before opens at once.
"""

from reconet.inference.fast.choice import (
    CHOICE,
    SPARE_BYTES,
    FastChoice,
    FoundChoice,
    Way,
    has_fast_packages,
    hash_weights,
    is_export,
)
from reconet.inference.fast.find import find_fast
from reconet.inference.fast.open import load_compiled, open_choice, open_fast

__all__ = [
    "CHOICE",
    "SPARE_BYTES",
    "FastChoice",
    "FoundChoice",
    "Way",
    "find_fast",
    "has_fast_packages",
    "hash_weights",
    "is_export",
    "load_compiled",
    "open_choice",
    "open_fast",
]
