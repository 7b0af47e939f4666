"""Modules of the user are imported by --import alone, and what goes wrong is one line."""

import sys
from pathlib import Path

import pytest

from reconet.errors import RecipeError, unknown
from reconet.system import own_code


def test_a_file_or_module_is_imported_once_and_remembered_without_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own_part_a.py"
    path.write_text("import own_part_b\nCOUNT = []\n")
    (tmp_path / "own_part_b.py").write_text("HERE = True\n")
    own_code.import_own(str(path))
    module = sys.modules["own_part_a"]
    own_code.import_own(str(path))
    assert sys.modules["own_part_a"] is module
    assert "own_part_a.py" in own_code.imported_names()
    assert str(path) in own_code.imported_sources()
    monkeypatch.chdir(tmp_path)
    own_code.import_own("own_part_b")
    assert "own_part_b" in own_code.imported_names()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("own_wrong.py", "1 / 0", r"own_wrong.py: ZeroDivisionError: division by zero \(.*line 1"),
        ("own_wrong.py", "def (", r"SyntaxError: invalid syntax \(.*own_wrong.py, line 1\)\."),
        ("own_wrong.py", "import no_such_thing", "ModuleNotFoundError: No module named 'no_such_"),
        ("own_wrong.py", None, "there is no such file"),
        ("json.py", "", "there is another module 'json'; rename the file"),
    ],
)
def test_an_error_in_the_users_file_is_one_line_with_its_place(
    tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(RecipeError, match=message):
        own_code.import_own(str(tmp_path / name))
    assert "own_wrong" not in sys.modules


def test_an_error_says_what_was_imported_when_the_file_was_made() -> None:
    with (
        pytest.raises(RecipeError, match=r"net was made with --import mine\.py: add that\."),
        own_code.explain_missing_import(["mine.py"], "net"),
    ):
        raise unknown("context", "mine", ["fcn"])
