"""Imports point one way. The list is the architecture: a package imports only earlier ones."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "reconet"
ORDER = [
    "errors",
    "types",
    "system",
    "recipes",
    "data",
    "models",
    "zoo",
    "cost",
    "inference",
    "evaluation",
    "cache",
    "engine",
    "export",
    "bench",
    "report",
    "explain",
    "prune",
    "suggest",
    "study",
    "serve",
    "cli",
    "__main__",
]


def owner(path: Path) -> str:
    """Return the package that a file belongs to: reconet/data/sets/voc12.py -> data."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_by(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "reconet":
            names.update(f"reconet.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return {name.split(".")[1] for name in names if name.startswith("reconet.")} & set(ORDER)


def test_imports_point_to_earlier_packages() -> None:
    files = set(PACKAGE.rglob("*.py")) - {PACKAGE / "__init__.py"}
    assert files
    for path in sorted(files):
        own = owner(path)
        assert own in ORDER, f"{path.relative_to(PACKAGE)} has no place in ORDER"
        later = {n for n in imported_by(path) if ORDER.index(n) > ORDER.index(own)}
        assert not later, f"{path.relative_to(PACKAGE)} imports {later}, which come after it"


def test_data_and_models_do_not_know_each_other() -> None:
    for path in (PACKAGE / "data").rglob("*.py"):
        assert "models" not in imported_by(path)
    for path in (PACKAGE / "models").rglob("*.py"):
        assert "data" not in imported_by(path)


def test_the_root_of_the_package_is_a_front_door() -> None:
    names = {path.stem for path in PACKAGE.glob("*.py")}
    assert names == {"__init__", "__main__", "errors", "types"}
