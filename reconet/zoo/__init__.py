"""Public networks of other toolkits, by name or from a file.

catalogue.py    the table of networks, and open_public(), which fetches and converts one of them
mmseg_files.py  names of mmsegmentation's files
convert.py      convert_file(): a public file as one of our networks (a door of its own)
heads.py        the toolkits, and their heads in names and options of our contexts
"""

from reconet.zoo.catalogue import (
    CATALOGUE,
    ListedNetwork,
    PublicNetwork,
    cached_path,
    find_public,
    has_words,
    open_public,
    search_public,
)

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
