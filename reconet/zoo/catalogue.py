"""List the public networks that can be had by name.

To add one of mmsegmentation, add the name of its file to mmseg_files.py. The name of a network is
that of its file, without the date and the checksum.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reconet.errors import pick
from reconet.zoo.mmseg_files import FILES

MMSEG_ADDRESS = "https://download.openmmlab.com/mmsegmentation/v0.5"
TORCHVISION_ADDRESS = "https://download.pytorch.org/models"

BACKBONES = {"r50": "resnet50", "r101": "resnet101"}
DATASETS = {  # of mmsegmentation -> ours
    "cityscapes": "cityscapes",
    "ade20k": "ade20k",
    "voc12aug": "voc12",
    "pascal_context": "pcontext",
    "pascal_context_59": "pcontext59",
}
# Where mmsegmentation's word for a method is not the name of our context.
CONTEXTS = {"ann": "asymmetric"}
FOLDERS = {"nonlocal": "nonlocal_net"}  # of a method on the server, where it is not the method
# Megabytes on ResNet-50: four bytes for each number of the network.
MEGABYTES = {
    "fcn": 198,
    "pspnet": 196,
    "deeplabv3": 273,
    "deeplabv3plus": 175,
    "psanet": 237,
    "nonlocal": 200,
    "encnet": 144,
    "ccnet": 200,
    "danet": 200,
    "apcnet": 226,
    "dmnet": 213,
    "ann": 185,
    "emanet": 170,
}
MORE_OF_RESNET101 = 76

FILE = re.compile(
    r"(?P<name>(?P<method>[a-z0-9]+)_(?P<backbone>r\d+)-d8(_fp16)?"
    r"_(?P<height>\d+)x(?P<width>\d+)_(?P<steps>\d+)k_(?P<dataset>\w+?))"
    r"_\d{8}_\d{6}-(?P<sha256>[0-9a-f]{8})"
)


@dataclass(frozen=True, kw_only=True)
class ListedNetwork:
    """A network that can be used by its name, and what is known about it."""

    name: str
    source: str  # torchvision, mmsegmentation, or this package
    context: str  # ours
    backbone: str
    dataset: str  # ours
    miou: float  # as stated by its makers: one scale, no mirror image, a fraction
    megabytes: int  # about
    licence: str  # of the weights


@dataclass(frozen=True, kw_only=True)
class PublicNetwork(ListedNetwork):
    """A network that others have published, with the facts that they state."""

    crop: tuple[int, int]  # of training
    steps: int | None  # of training, if stated
    address: str
    sha256: str  # the beginning of it

    @property
    def toolkit(self) -> str:
        """Return the key of its toolkit, as `reconet convert --from` takes it."""
        return "mmseg" if self.source == "mmsegmentation" else self.source


def _mmseg() -> Iterator[PublicNetwork]:
    for line in filter(None, FILES.split("\n")):
        file, miou = line.split()
        match = FILE.fullmatch(file)
        assert match is not None, file
        method, name = match["method"], match["name"]
        deeper = MORE_OF_RESNET101 if match["backbone"] == "r101" else 0
        yield PublicNetwork(
            name=name,
            source="mmsegmentation",
            context=CONTEXTS.get(method, method),
            backbone=BACKBONES[match["backbone"]],
            dataset=DATASETS[match["dataset"]],
            crop=(int(match["height"]), int(match["width"])),
            steps=1000 * int(match["steps"]),
            miou=round(float(miou) / 100, 4),
            address=f"{MMSEG_ADDRESS}/{FOLDERS.get(method, method)}/{name}/{file}.pth",
            sha256=match["sha256"],
            megabytes=MEGABYTES[method] + deeper,
            licence="Apache-2.0",
        )


def _torchvision() -> Iterator[PublicNetwork]:
    rows = (  # COCO_WITH_VOC_LABELS_V1 of each
        ("fcn", "resnet50", "1167a1af", 60.5, 142),
        ("fcn", "resnet101", "7ecb50ca", 63.7, 218),
        ("deeplabv3", "resnet50", "cd0a2569", 66.4, 168),
        ("deeplabv3", "resnet101", "586e9e4e", 67.4, 245),
    )
    for context, backbone, sha256, miou, megabytes in rows:
        name = f"{context}_{backbone}_coco"
        yield PublicNetwork(
            name=name,
            source="torchvision",
            context=context,
            backbone=backbone,
            dataset="coco",
            crop=(480, 480),
            steps=None,
            miou=round(miou / 100, 4),
            address=f"{TORCHVISION_ADDRESS}/{name}-{sha256}.pth",
            sha256=sha256,
            megabytes=megabytes,
            licence="BSD-3-Clause",
        )


CATALOGUE = {network.name: network for network in (*_torchvision(), *_mmseg())}


def find_public(name: str) -> PublicNetwork:
    """Find a public network by its name."""
    return pick(CATALOGUE, name, "public network")


def search_public(words: Sequence[str] = ()) -> list[PublicNetwork]:
    """List the networks that have every word in their name, method, backbone, dataset or source."""
    return [one for one in CATALOGUE.values() if has_words(one, words)]


def has_words(one: ListedNetwork, words: Sequence[str]) -> bool:
    """Tell whether each of the words is in the name, method, backbone, dataset or source."""
    texts = (one.name, one.context, one.backbone, one.dataset, one.source)
    return all(any(word.lower() in text for text in texts) for word in words)
