"""Modules of the user are imported by --import alone, and what goes wrong is one line."""

import sys
from pathlib import Path

import pytest

from reconet.errors import RecipeError, unknown
from reconet.system.own_code import (
    explain_missing_import,
    import_own,
    imported_names,
    imported_sources,
)


def test_a_file_is_imported_once_and_remembered_without_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "own_part_a.py"
    path.write_text("import own_part_b\nCOUNT = []\n")
    (tmp_path / "own_part_b.py").write_text("")
    import_own(str(path))
    module = sys.modules["own_part_a"]
    import_own(str(path))
    assert sys.modules["own_part_a"] is module
    assert "own_part_a.py" in imported_names()
    assert str(path) in imported_sources()


def test_a_module_of_the_working_directory_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_part_c.py").write_text("HERE = True\n")
    monkeypatch.chdir(tmp_path)
    import_own("own_part_c")
    assert sys.modules["own_part_c"].HERE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", r"--import .*own_wrong.py: ZeroDivisionError: division by zero \(.*, line 1\)\."),
        ("def (", r"SyntaxError: invalid syntax \(.*own_wrong.py, line 1\)\."),
        ("import no_such_thing", "ModuleNotFoundError: No module named 'no_such_thing'"),
    ],
)
def test_an_error_in_the_users_file_is_one_line_with_its_place(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "own_wrong.py"
    path.write_text(text)
    with pytest.raises(RecipeError, match=message):
        import_own(str(path))
    assert "own_wrong" not in sys.modules


def test_a_missing_file_and_a_name_that_is_taken_are_errors(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="there is no such file"):
        import_own(str(tmp_path / "nothing.py"))
    path = tmp_path / "json.py"
    path.write_text("")
    with pytest.raises(RecipeError, match="there is another module 'json'; rename the file"):
        import_own(str(path))


def test_an_error_says_what_was_imported_when_the_file_was_made() -> None:
    with (
        pytest.raises(RecipeError, match=r"net was made with --import mine\.py: add that\."),
        explain_missing_import(["mine.py"], "net"),
    ):
        raise unknown("context", "mine", ["fcn"])
