"""Describe the networks that come with the package, for `reconet zoo`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from reconet import zoo
from reconet.inference.network import shipped_networks
from reconet.models.trained import read_info
from reconet.system.reading import SETTINGS_BYTES, read_file

LICENCE_LINE = re.compile(r'^license: "?(.*?)"?$', re.MULTILINE)  # of a card
# The score by the protocol of the recipe. The file has one of its training, which may differ.
MIOU = re.compile(r'type"?: "?miou"?,?\s+"?value"?: ([0-9.]+)')


@dataclass(frozen=True, kw_only=True)
class ShippedNetwork(zoo.ListedNetwork):
    """A network of the package, with what its file and its card say about it."""

    path: str


def describe_shipped(words: Sequence[str] = ()) -> list[ShippedNetwork]:
    """Describe the networks in this package that have all of these words."""
    described = []
    for name, path in shipped_networks().items():
        info = read_info(path)
        card = read_file(path.with_suffix(".md"), limit=SETTINGS_BYTES).decode()
        licence, miou = LICENCE_LINE.search(card), MIOU.search(card)
        network = ShippedNetwork(
            name=name,
            source="reconet",
            context=info.recipe.model.context,
            backbone=info.recipe.model.backbone,
            dataset=info.recipe.data.name,
            miou=float(miou[1]) if miou else info.score["miou"],
            megabytes=round(path.stat().st_size / 1e6),
            licence=licence[1] if licence else "not stated",
            path=str(path),
        )
        if zoo.has_words(network, words):
            described.append(network)
    return described
