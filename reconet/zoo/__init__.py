"""Public networks of other toolkits, by name or from a file.

catalogue.py    the table of networks, and what their authors publish about them
mmseg_files.py  names of mmsegmentation's files
open.py         open_public(): fetch a network once, convert it, keep it in the cache
convert.py      convert_file(): a public file as one of our networks (a door of its own)
toolkits.py     the toolkits, and how they show images to their networks
heads.py        the heads of both toolkits, in names and options of our contexts
"""

from reconet.zoo.catalogue import (
    CATALOGUE,
    ListedNetwork,
    PublicNetwork,
    find_public,
    has_words,
    search_public,
)
from reconet.zoo.open import cached_path, open_public

__all__ = [
    "CATALOGUE",
    "ListedNetwork",
    "PublicNetwork",
    "cached_path",
    "find_public",
    "has_words",
    "open_public",
    "search_public",
]
