"""Write the line numbers of the code links in docs/tour.md: `make docs`.

A link of the tour is [`name`](../reconet/file.py#L12). The name is a function, a class, a method
(`Class.method`) or a constant of that file. A name that does not exist is an error.
"""

import ast
import re
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "tour.md"
LINK = re.compile(r"\[`([\w.]+)`\]\((\.\./reconet/[\w/]+\.py)(?:#L\d+)?\)")


def page(text: str) -> str:
    """Return the page with the line number of every link."""
    return LINK.sub(lambda match: f"[`{match[1]}`]({match[2]}#L{_line(match[2], match[1])})", text)


def _line(target: str, name: str) -> int:
    tree = ast.parse((PAGE.parent / target).read_text(encoding="utf-8"))
    try:
        return find(tree, name.split(".")).lineno
    except StopIteration:
        raise SystemExit(f"{PAGE.name} links {name}, which {target} does not define") from None


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
