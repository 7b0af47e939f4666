"""Name what every backend returns when it opens a file."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Run = Callable[[NDArray[np.uint8]], Sequence[NDArray[np.generic]]]  # image_bchw -> outputs


class OpenedFile(NamedTuple):
    """An exported file as its backend opened it, before anything in it is checked."""

    texts: Mapping[str, str]  # the metadata
    library: str  # the name of what runs it, for people
    prepare: Callable[[], Run]  # makes it ready to run; until then nothing in it is computed


OpenFile = Callable[[Path, Sequence[str]], OpenedFile]  # a file, and the outputs that are wanted
