"""Write requirements.lock: every pinned package with the hashes of all its files.

    .venv/bin/python -m tools.make_lock

The versions are those of constraints.txt. The hashes are those that pip's index states for each
file of a version, so that the lock serves every platform. torch is left out: its builds for CPUs
and for each CUDA are different files of one version, and not all are in one index.
"""

import os
import re
import sys
import urllib.request
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

ROOT = Path(__file__).parent.parent
CONSTRAINTS, LOCK = ROOT / "constraints.txt", ROOT / "requirements.lock"
LEFT_OUT = ("torch",)
HEAD = """\
# Every pinned package with the hashes of its files, written by `make lock`. docs/reliability.md
# says how to install from it. torch comes first and by itself: its builds differ in hashes.
"""


class _Links(HTMLParser):
    """Collects the links of a page of the index: one for each file, with its hash."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links += [value for name, value in attrs if name == "href" and value]


def read_pins(path: Path) -> dict[str, str]:
    """Read name==version lines. Names are normalised."""
    lines = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
    pairs = [line.split("==") for line in lines if line]
    return {canonicalize_name(name): version for name, version in pairs}


def read_lock(path: Path) -> dict[str, tuple[str, list[str]]]:
    """Read the version and the hashes of each package of a lock file."""
    entries = re.findall(
        r"^(\S+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", path.read_text(), re.MULTILINE
    )
    return {name: (version, re.findall("[0-9a-f]{64}", rest)) for name, version, rest in entries}


def index_address() -> str:
    """Return the address of the index that pip uses."""
    from pip._internal.models.index import PyPI

    address: str = os.environ.get("PIP_INDEX_URL") or PyPI.simple_url
    return address.rstrip("/")


def read_links(name: str) -> list[str]:
    """Return the links of a package's page."""
    request = urllib.request.Request(f"{index_address()}/{name}/", headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        page = _Links()
        page.feed(answer.read().decode())
    return page.links


def hashes_of(links: Iterable[str], name: str, version: str) -> list[str]:
    """Return the hashes of all files of one version, sorted."""
    found = set()
    for link in links:
        address, _, fragment = link.partition("#")
        is_ours = file_version(unquote(address.rpartition("/")[2]), name) == Version(version)
        if is_ours and fragment.startswith("sha256="):
            found.add(fragment.removeprefix("sha256="))
    return sorted(found)


def file_version(file: str, name: str) -> Version | None:
    """Return the version of a file of a package, or None if pip does not install such files."""
    try:
        parsed = parse_wheel_filename(file) if file.endswith(".whl") else parse_sdist_filename(file)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None
    return parsed[1] if parsed[0] == name else None


def main() -> None:
    entries = []
    for name, version in read_pins(CONSTRAINTS).items():
        if name in LEFT_OUT:
            continue
        hashes = hashes_of(read_links(name), name, version)
        if not hashes:
            sys.exit(f"the index has no file of {name} {version}; nothing was written.")
        entries.append(
            " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{h}" for h in hashes)])
        )
        print(f"{name} {version}: {len(hashes)} files", file=sys.stderr)
    LOCK.write_text(HEAD + "\n".join(entries) + "\n")


if __name__ == "__main__":
    main()
