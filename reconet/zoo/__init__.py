"""Public networks of other toolkits, by name or from a file.

catalogue.py          the table of networks, and what their authors publish about them
mmseg_files.py        names of mmsegmentation's files
open.py               open_public(): fetch a network once, convert it, keep it in the cache
fetch.py              downloads that resume and are checked
convert.py            convert_file(): a public file as one of our networks
checkpoint.py         read a public file without running it
sources.py            the toolkits, and how they show images to their networks
head.py               what is told about a public head
mmseg_heads.py        the heads of mmsegmentation
torchvision_heads.py  the heads of torchvision
"""

from reconet.zoo.catalogue import (
    CATALOGUE,
    ListedNetwork,
    PublicNetwork,
    find_public,
    has_words,
    search_public,
)
from reconet.zoo.convert import Conversion, Publication, convert_file
from reconet.zoo.open import cached_path, open_public, was_converted, write_network
from reconet.zoo.sources import SOURCES

__all__ = [
    "CATALOGUE",
    "SOURCES",
    "Conversion",
    "ListedNetwork",
    "PublicNetwork",
    "Publication",
    "cached_path",
    "convert_file",
    "find_public",
    "has_words",
    "open_public",
    "search_public",
    "was_converted",
    "write_network",
]
