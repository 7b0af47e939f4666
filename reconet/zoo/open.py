"""Open a public network by its name: fetch it, convert it, and keep the result in the cache."""

import hashlib
import http.client
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import BinaryIO

from reconet.errors import CheckpointError, ReconetError, first_line
from reconet.system.files import readable_bytes, remove_temporary_files, write_atomic
from reconet.system.progress import SILENT, Progress
from reconet.system.run_files import BEST
from reconet.system.user_cache import cache_root
from reconet.zoo.catalogue import PublicNetwork, find_public

FOLDER = "zoo"  # in the cache
SECONDS = 20.0  # without a byte, after which a server counts as out of reach
BLOCK = 2**20
LARGEST = 4 * 2**30  # bytes; no public network is nearly as large


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


def cached_path(network: PublicNetwork) -> Path:
    """Return where the converted file of a network is, or will be."""
    return cache_root() / FOLDER / network.name / BEST


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
                if done > LARGEST:
                    raise CheckpointError(f"{address} is larger than {readable_bytes(LARGEST)}.")
    except urllib.error.HTTPError as error:
        error.close()
        raise CheckpointError(
            f"cannot fetch {address}: the server answers {error.code} {error.reason}."
        ) from error
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
