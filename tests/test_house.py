"""Keep the house in order: short files, short functions, docstrings that start with a verb."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
TOPS = ("reconet", "tests", "tools", "benchmarks")
FILES = sorted(path for top in TOPS for path in (ROOT / top).rglob("*.py"))
VERBS = set((ROOT / "tests" / "verbs.txt").read_text().split())
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions() -> Iterator[tuple[Path, Function]]:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, Function):
                yield path, node


def test_docstrings_of_functions_start_with_a_verb() -> None:
    wrong = []
    for path, function in functions():
        text = ast.get_docstring(function)
        if text and text.split()[0].strip(".,:").lower() not in VERBS:
            wrong.append(f"{path.relative_to(ROOT)}:{function.lineno} {text.split()[0]}")
    advice = "add the word to tests/verbs.txt if it is a verb"
    assert not wrong, "\n".join([*wrong, advice])


def test_no_file_is_longer_than_450_lines() -> None:
    long = [str(path) for path in FILES if len(path.read_text().splitlines()) > 450]
    assert not long


def test_99_of_100_functions_have_at_most_50_lines() -> None:
    lengths = sorted((node.end_lineno or 0) - node.lineno + 1 for _, node in functions())
    assert lengths[len(lengths) * 99 // 100] <= 50
