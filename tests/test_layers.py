"""Imports point one way. The list is the architecture: a module imports only from earlier rows.

Modules of one row do not import each other, except within one package.
"""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "reconet"
ROWS = [
    {"errors"},
    {"files", "places", "schedule", "metrics", "turns", "void"},
    {"recipe"},
    {"recipes"},
    {"data", "models"},
    {"cpu", "environment", "losses", "world", "resampling", "figures"},
    {"protocol", "submit"},
    {"inference", "runtimes"},
    {"cost", "inside", "runtime"},
    {"evaluate", "sheet"},
    {"export", "share"},
    {"predict"},
    {"bench", "bench_data", "bench_evaluate", "bench_model", "cost_paper", "engine"},
    {"predictions"},
    {"bench_plot", "bench_train", "report", "serve"},
    {"explain", "study"},
    {"prune"},
    {"tables"},
    {"tables_bench"},
    {"cli"},
    {"__main__"},
]
ROW = {name: number for number, row in enumerate(ROWS) for name in row}


def owner(path: Path) -> str:
    """The row entry that a file belongs to: reconet/data/voc12.py -> data."""
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
    return {name.split(".")[1] for name in names if name.startswith("reconet.")} & ROW.keys()


def test_imports_point_to_earlier_rows() -> None:
    files = set(PACKAGE.rglob("*.py")) - {PACKAGE / "__init__.py"}
    assert files
    for path in files:
        own = owner(path)
        assert own in ROW, f"{path.relative_to(PACKAGE)} has no place in ROWS"
        wrong = {n for n in imported_by(path) if n != own and ROW[n] >= ROW[own]}
        assert not wrong, (
            f"{path.relative_to(PACKAGE)} imports {wrong}, which do not come before it"
        )


def test_data_and_models_do_not_know_each_other() -> None:
    for path in (PACKAGE / "data").rglob("*.py"):
        assert "models" not in imported_by(path)
    for path in (PACKAGE / "models").rglob("*.py"):
        assert "data" not in imported_by(path)
