"""Run an exported file once in a process of its own, with limits, before it is run in this one.

A graph is data, but it can hold a loop of any length, or ask for any amount of memory. A file that
passed is remembered by its digest, so the probe is made once. Files that `reconet export` wrote on
this machine are remembered too.
"""

import os
import subprocess
import sys
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from reconet.errors import CheckpointError, ReconetError
from reconet.system.files import write_text
from reconet.system.reading import WEIGHTS_BYTES, open_file
from reconet.system.user_cache import cache_root

SECONDS = 120  # far more than any network of this package needs for an image of some pixels
SPARE_BYTES = 6 * 2**30  # of memory, beside some copies of the file
COPIES = 8
FOLDER = "probed"


def probe_export(source: Path, *, seconds: int = SECONDS) -> None:
    """Raise an error if a file cannot be opened and run within limits of time and memory."""
    digest = hash_export(source)
    if (cache_root() / FOLDER / digest).is_file():
        return
    size = sum(path.stat().st_size for path in _files(source))
    limits = [str(seconds), str(SPARE_BYTES + COPIES * size)]
    command = [sys.executable, "-m", "reconet.inference.probe", str(source), *limits]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=seconds + 30,  # it stops by itself after `seconds` of work
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CheckpointError(f"{source} did not run within {seconds} seconds.") from error
    if done.returncode:
        raise CheckpointError(_explain(done, source, seconds))
    remember_export(source, digest)


def remember_export(source: Path, digest: str | None = None) -> None:
    """Remember that a file runs, so that it is not probed again."""
    with suppress(ReconetError):  # a cache that cannot be written costs a probe, no more
        write_text(cache_root() / FOLDER / (digest or hash_export(source)), "")


def hash_export(source: Path, *, digest_bytes: int = 16) -> str:
    """Hash the file, or files, of an export or a network. The last results are remembered."""
    status = [(str(path), path.stat()) for path in _files(source)]
    version = tuple((name, one.st_size, one.st_mtime_ns, one.st_ino) for name, one in status)
    return _hash_files(version, digest_bytes)


@lru_cache(maxsize=8)
def _hash_files(version: tuple[tuple[str, int, int, int], ...], digest_bytes: int) -> str:
    state = blake2b(digest_size=digest_bytes)
    for path in (Path(name) for name, *_ in version):
        with open_file(path, limit=WEIGHTS_BYTES) as file:
            while block := file.read(2**20):
                state.update(block)
    return state.hexdigest()


def _files(source: Path) -> list[Path]:
    weights = source.with_suffix(".bin")
    return [source, weights] if source.suffix == ".xml" and weights.is_file() else [source]


def _explain(done: subprocess.CompletedProcess[bytes], source: Path, seconds: int) -> str:
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    if done.returncode == 2 and lines:
        return lines[-1]
    if done.returncode < 0:
        return f"{source} asked for more memory or time than a network needs ({seconds} s)."
    return f"{source} cannot be run: {lines[-1] if lines else 'it gave no reason'}."


def _run(source: Path, seconds: int, memory: int) -> None:
    from reconet.inference.backends import open_exported

    with suppress(ImportError):  # Windows has no limits
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import torch

    opened = open_exported(source, trusted=True)
    side = max(opened.info.smallest, 64)
    opened(torch.zeros(1, 3, side, side, dtype=torch.uint8))


if __name__ == "__main__":
    try:
        _run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    except (ReconetError, MemoryError) as error:
        print(str(error) or f"{sys.argv[1]} asks for too much memory.", file=sys.stderr)
        sys.exit(2)
