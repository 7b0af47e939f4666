"""Files are read and written through two doors: system/reading.py and system/files.py."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "reconet"
DOORS = ("system/reading.py", "system/files.py")
CALLS = {"open", "read_text", "read_bytes", "write_bytes", "write_text", "fromfile", "memmap"}
CALLS |= {"copyfile", "copy2", "copytree", "imread", "imwrite", "savefig", "tofile"}
# Functions of libraries that take a path. Their modules ask one of the doors before.
READERS = {"load_file", "safe_open", "loadmat", "whosmat", "read_model", "VideoCapture", "ZipFile"}
READERS |= {"save_file", "VideoWriter", "torch.load", "torch.save"}
ASKS = ("check_file(", "staged_write(")
# Calls that need no door, and why.
ALLOWED = {
    "cache/store.py": "files of the cache, which are checked by their sums",
    "cli/main.py": "the null device",
    "engine/forecast.py": "the memory of this machine",
    "engine/run_directory.py": "the folder itself, only locked",
    "evaluation/evaluate.py": "files that it has just written itself",
    "export/formats.py": "a temporary folder of its own",
    "serve/app.py": "files of this package",
    "system/hardware.py": "the processor of this machine",
}
# Objects whose method `open` opens something else than a path of the disk.
STREAMS = ("buffer", "file")  # what is already open, or in memory
FOREIGN = ("archive", "entry", "request", "views", "whole", "Pillow")


def opening_calls(path: Path) -> list[int]:
    """List the lines of calls that open a file by its path."""
    lines, text = [], path.read_text()
    readers = set() if any(ask in text for ask in ASKS) else READERS
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if node.args and ast.unparse(node.args[0]) in STREAMS:
            continue
        if isinstance(function, ast.Name) and function.id in readers | {"open"}:
            lines.append(node.lineno)
        names = {ast.unparse(function), getattr(function, "attr", "")}
        if isinstance(function, ast.Attribute) and names & (CALLS | readers):
            owner = ast.unparse(function.value)
            is_foreign = owner in FOREIGN or owner.startswith("validation_request(")
            if function.attr != "open" or not is_foreign:
                lines.append(node.lineno)
    return lines


def test_nothing_opens_files_beside_the_two_doors() -> None:
    found = {
        str(path.relative_to(PACKAGE)): lines
        for path in sorted(PACKAGE.rglob("*.py"))
        if (lines := opening_calls(path))
    }
    strangers = {name: lines for name, lines in found.items() if name not in (*DOORS, *ALLOWED)}
    assert not strangers, f"use reconet.system.reading or reconet.system.files: {strangers}"
    assert ALLOWED.keys() <= found.keys(), "a reason that is no longer needed"
