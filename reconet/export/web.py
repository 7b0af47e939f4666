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

from reconet.errors import ExportError
from reconet.inference.backends import ExportInfo
from reconet.inference.protocol import Protocol
from reconet.system.files import write_text
from reconet.system.reading import read_file, read_text

PACKAGE = "onnxruntime-web"
BUNDLE, WASM = "ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"
LARGEST = 100 * 2**20  # bytes of the runtime
EXPORTS = re.compile(r"export\s*\{([^{}]*)\}\s*;?\s*(?://# sourceMappingURL.*)?\s*$")


def write_web(proto: Any, info: ExportInfo, folder: Path, title: str) -> None:
    """Write index.html and its scripts. `proto` is the network as an onnx.ModelProto."""
    bundle, wasm = _runtime(Path.cwd() / "node_modules" / PACKAGE)
    network = info.network
    protocol = Protocol.of(network.recipe.eval, network.recipe.data)
    about = {
        "classes": network.classes,
        "colours": network.palette,
        "longSide": round(network.recipe.data.base_size * max(protocol.scales)),
        "smallest": info.smallest,
    }
    onnx, code = b64encode(proto.SerializeToString()).decode(), b64encode(wasm).decode()
    write_text(
        folder / "network.js",
        f"const NETWORK_INFO = {json.dumps(about)};\nconst NETWORK_ONNX = '{onnx}';\n",
    )
    write_text(folder / "runtime.js", f"const RUNTIME_WASM = '{code}';\n")
    page = read_text(Path(__file__).parent / "web" / "index.html")
    template = Environment(autoescape=True).from_string(page)
    write_text(folder / "index.html", template.render(title=title, runtime=_as_script(bundle)))


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
