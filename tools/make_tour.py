"""Write the files of the code links in docs/tour.md: `make docs`.

A link of the tour is [`name`](../reconet/file.py). The name is a function, a class, a method
(`Class.method`) or a constant of that file. If it moved to another file, the link follows. A name
that does not exist is an error.
"""

import ast
import re
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "tour.md"
LINK = re.compile(r"\[`([\w.]+)`\]\((\.\./reconet/[\w/]+\.py)\)")


def page(text: str) -> str:
    """Return the page with the file of every link."""
    return LINK.sub(lambda match: f"[`{match[1]}`]({_place(match[2], match[1])})", text)


def _place(target: str, name: str) -> str:
    """Return the file that defines a name: the linked one, or the only other one."""
    linked = PAGE.parent / target
    for files in ([linked], sorted((PAGE.parent.parent / "reconet").rglob("*.py"))):
        found = [file for file in files if _defines(file, name)]
        if len(found) == 1:
            return f"../{found[0].resolve().relative_to(PAGE.parent.parent).as_posix()}"
    raise SystemExit(f"{PAGE.name} links {name}, which {target} does not define")


def _defines(file: Path, name: str) -> bool:
    try:
        return bool(find(ast.parse(file.read_text(encoding="utf-8")), name.split(".")))
    except (OSError, StopIteration):
        return False


def find(tree: ast.Module, parts: list[str]) -> ast.stmt:
    """Return the statement that defines a name, within a class if there are two parts."""
    first, *rest = parts
    node = next(node for node in tree.body if first in _names(node))
    for part in rest:
        assert isinstance(node, ast.ClassDef), f"{first} is no class"
        node = next(inner for inner in node.body if part in _names(inner))
    return node


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
