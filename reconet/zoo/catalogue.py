"""List the public networks that can be had by name, and open one: fetch it once, and convert it.

To add one of mmsegmentation, add the name of its file to mmseg_files.py. The name of a network is
that of its file, without the date and the checksum.
"""

import hashlib
import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from reconet.errors import CheckpointError, ReconetError, first_line, pick
from reconet.system.files import readable_bytes, remove_temporary_files, write_atomic
from reconet.system.progress import SILENT, Progress
from reconet.system.run_files import BEST
from reconet.system.user_cache import cache_root
from reconet.zoo.mmseg_files import FILES

FOLDER = "zoo"  # in the cache
SECONDS = 20.0  # without a byte, after which a server counts as out of reach
BLOCK = 2**20

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


def cached_path(network: PublicNetwork) -> Path:
    """Return where the converted file of a network is, or will be."""
    return cache_root() / FOLDER / network.name / BEST


def open_public(name: str, progress: Progress = SILENT) -> Path:
    """Return the file of a public network, converted. The first time it is fetched."""
    network = find_public(name)
    path = cached_path(network)
    if not path.is_file():
        try:
            _fetch_and_convert(network, path.parent, progress)
        except ReconetError:
            if not path.is_file():  # or another process was faster
                raise
    return path


def _fetch_and_convert(network: PublicNetwork, folder: Path, progress: Progress) -> None:
    from reconet.zoo.convert import convert_file, write_network  # only now: it takes a while

    fetched = folder / network.address.rpartition("/")[2]
    write_atomic(fetched, partial(_fetch, network, progress))
    progress.status("convert")
    try:
        made = convert_file(fetched, network.toolkit, dataset=network.dataset, published=network)
        write_network(folder, made.network)
    finally:
        fetched.unlink(missing_ok=True)  # the converted file holds the same weights
    remove_temporary_files(fetched)  # of fetches that were killed


def _fetch(network: PublicNetwork, progress: Progress, file: BinaryIO) -> None:
    """Write the file that was published, or raise an error."""
    address, digest, done = network.address, hashlib.sha256(), 0
    request = urllib.request.Request(address, headers={"User-Agent": "reconet"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            total = int(answer.headers.get("Content-Length") or 0)
            progress.start(max(1, total // BLOCK), "fetch")
            progress.status(f"{readable_bytes(total)} from {request.host}")
            while block := answer.read(BLOCK):
                digest.update(block)
                file.write(block)
                done += len(block)
                progress.advance()
    except urllib.error.HTTPError as error:
        error.close()
        answered = f"the server answers {error.code} {error.reason}"
        raise CheckpointError(f"cannot fetch {address}: {answered}.") from error
    except (
        urllib.error.URLError,
        http.client.HTTPException,
        TimeoutError,
        ConnectionError,
    ) as error:
        reason = getattr(error, "reason", error)
        text = first_line(reason) if isinstance(reason, BaseException) else str(reason)
        raise CheckpointError(f"cannot fetch {address}: {text}. Is this machine online?") from error
    if done < total:
        raise CheckpointError(
            f"cannot fetch {address}: the connection broke after {readable_bytes(done)}. Try again."
        )
    if not digest.hexdigest().startswith(network.sha256):
        raise CheckpointError(
            f"{address} is not the file that was published: its SHA-256 begins with "
            f"{digest.hexdigest()[: len(network.sha256)]} instead of {network.sha256}."
        )
