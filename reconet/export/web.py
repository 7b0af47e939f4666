"""Write a page that runs a network in the browser: one folder, no server, no request.

The page opens from the disk. Browsers refuse modules and files of such pages, so the runtime stands
inside the page, and the network and the runtime's WebAssembly are base64 texts in scripts.
The runtime is the npm package onnxruntime-web: a folder that has it, or `npm` fetches it.
"""

import json
import re
import shutil
import subprocess
import tempfile
from base64 import b64encode
from pathlib import Path
from typing import Any

from jinja2 import Environment

from reconet.data.classes import photograph_palette
from reconet.errors import ExportError
from reconet.inference.backends import ExportInfo
from reconet.system.files import write_text
from reconet.system.reading import read_file, read_text

PAGE, TEMPLATE = "index.html", Path(__file__).parent / "web" / "index.html"
PACKAGE = "onnxruntime-web"
BUNDLE, WASM = "ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"
LARGEST = 100 * 2**20  # bytes of the runtime
EXPORTS = re.compile(r"export\s*\{([^{}]*)\}\s*;?\s*(?://# sourceMappingURL.*)?\s*$")


def write_page(folder: Path, onnx: bytes, info: ExportInfo) -> None:
    """Write index.html and its scripts for the bytes of an ONNX file."""
    bundle, wasm = _runtime(Path.cwd() / "node_modules" / PACKAGE)
    network = info.network
    about = {
        "classes": network.classes,
        "colours": photograph_palette(network.palette),
        "side": network.recipe.data.base_size * max(network.recipe.eval.scales),
        "relativeTo": network.recipe.eval.relative_to,
        "smallest": info.smallest,
    }
    scripts: dict[str, dict[str, object]] = {
        "network.js": {"NETWORK_INFO": about, "NETWORK_ONNX": b64encode(onnx).decode()},
        "runtime.js": {"RUNTIME_WASM": b64encode(wasm).decode()},
    }
    for name, constants in scripts.items():
        lines = [f"const {key} = {json.dumps(value)};\n" for key, value in constants.items()]
        write_text(folder / name, "".join(lines))
    page = Environment(autoescape=True).from_string(read_text(TEMPLATE))
    title = f"{network.recipe.model.title}, {len(network.classes)} classes"
    write_text(folder / PAGE, page.render(title=title, runtime=_as_script(bundle)))


def is_page(folder: Path) -> bool:
    """Return whether write_page wrote this folder, and may write it again."""
    names = {path.name for path in folder.iterdir() if path.suffix != ".part"}
    return names <= {PAGE, "network.js", "runtime.js"}


def _as_script(bundle: str) -> Any:
    """Return a module as text for a page. What it exports becomes the global `ort`."""
    from markupsafe import Markup

    found = EXPORTS.search(bundle)
    if found is None or "</script" in bundle:
        raise ExportError(f"{BUNDLE} is not as the page expects; use another {PACKAGE}.")
    pairs = [one.split(" as ") for one in found[1].split(",")]
    names = ", ".join(f"{pair[-1].strip()}: {pair[0].strip()}" for pair in pairs)
    start = f"globalThis.ort = {{ {names} }};\ndispatchEvent(new Event('runtime'));\n"
    return Markup(bundle[: found.start()] + start)


def _runtime(folder: Path) -> tuple[str, bytes]:
    """Read the runtime from a folder of npm, or let npm fetch it."""
    if not folder.is_dir():
        npm = shutil.which("npm")
        if npm is None:
            raise ExportError(
                f"the page needs the npm package {PACKAGE}: install Node.js, or put the package "
                f"into {folder}."
            )
        with tempfile.TemporaryDirectory() as place:
            command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
            done = subprocess.run([*command, "--prefix", place, PACKAGE], capture_output=True)
            if done.returncode:
                raise ExportError(f"npm cannot fetch {PACKAGE}: are you offline?")
            return _runtime(Path(place) / "node_modules" / PACKAGE)
    try:
        dist = folder / "dist"
        return read_text(dist / BUNDLE), read_file(dist / WASM, limit=LARGEST)
    except OSError as error:
        raise ExportError(f"{folder} is no {PACKAGE}: {error.strerror}.") from error
