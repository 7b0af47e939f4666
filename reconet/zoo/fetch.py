"""Fetch a file over HTTP: once, with progress, resuming what was interrupted, and checked."""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from reconet.errors import CheckpointError, OutputError, first_line
from reconet.system.files import readable_bytes
from reconet.system.locks import lock_file
from reconet.system.progress import SILENT, Progress

SECONDS = 20.0  # without a byte, after which a server counts as out of reach
BLOCK = 2**20
LARGEST = 4 * 2**30  # bytes; no public network is nearly as large


def fetch(address: str, path: Path, sha256: str, progress: Progress = SILENT) -> Path:
    """Fetch `address` to `path` unless it is there. `sha256` is the beginning of its checksum.

    A part that an earlier call has fetched is kept, and only the rest is asked for.
    """
    if path.is_file():
        return path
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("a+b") as file:
            with suppress(OSError):  # a file system without locks
                lock_file(file)  # another process may be fetching it
            if path.is_file():
                return path
            _fetch_rest(address, file, progress)
            _check(file, sha256, address, part)
            os.replace(part, path)
    except (
        urllib.error.URLError,
        http.client.HTTPException,
        TimeoutError,
        ConnectionError,
    ) as error:
        raise CheckpointError(_explain(address, part, error)) from error
    except OSError as error:
        raise OutputError(f"cannot write {part}: {error.strerror or error}.") from error
    return path


def _fetch_rest(address: str, file: BinaryIO, progress: Progress) -> None:
    """Append to `file` what it lacks."""
    done = file.seek(0, os.SEEK_END)
    headers = {"User-Agent": "reconet", "Range": f"bytes={done}-"} if done else {}
    request = urllib.request.Request(address, headers=headers or {"User-Agent": "reconet"})
    try:
        answer = urllib.request.urlopen(request, timeout=SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and done:
            return  # all of it is there, or it is another file: the checksum tells
        raise
    with answer:
        if done and answer.status != http.HTTPStatus.PARTIAL_CONTENT:
            file.truncate(0)  # this server cannot resume
            done = 0
        total = done + int(answer.headers.get("Content-Length") or 0)
        progress.start(max(1, total // BLOCK), "fetch")
        progress.advance(done // BLOCK)
        progress.status(f"{readable_bytes(total)} of megabytes from {request.host}")
        while block := answer.read(BLOCK):
            file.write(block)
            done += len(block)
            progress.advance(1)
            if done > LARGEST:
                raise CheckpointError(f"{address} is larger than {readable_bytes(LARGEST)}.")
        file.flush()
        if done < total:
            raise http.client.IncompleteRead(b"", total - done)


def _check(file: BinaryIO, sha256: str, address: str, part: Path) -> None:
    file.seek(0)
    whole = hashlib.sha256()
    while block := file.read(BLOCK):
        whole.update(block)
    digest = whole.hexdigest()
    if not digest.startswith(sha256):
        part.unlink(missing_ok=True)
        raise CheckpointError(
            f"{address} is not the file that was published: its SHA-256 begins with "
            f"{digest[: len(sha256)]} instead of {sha256}. What was fetched is deleted."
        )


def _explain(address: str, part: Path, error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"cannot fetch {address}: the server answers {error.code} {error.reason}."
    kept = part.stat().st_size if part.is_file() else 0
    again = f" {readable_bytes(kept)} are kept: try again to fetch the rest." if kept else ""
    reason = getattr(error, "reason", error)
    text = first_line(reason) if isinstance(reason, BaseException) else str(reason)
    return f"cannot fetch {address}: {text}. Is this machine online?{again}"
