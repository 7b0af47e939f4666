"""An import by an old name ends in an error that gives the new one."""

import importlib
import subprocess
import sys
from importlib.util import find_spec

import pytest

import reconet
from reconet.system.moved import MOVED


@pytest.mark.parametrize("old", MOVED)
def test_an_old_module_name_gives_the_new_one(old: str) -> None:
    new = f"reconet.{MOVED[old]}"
    with pytest.raises(ModuleNotFoundError) as raised:
        importlib.import_module(f"reconet.{old}")
    assert str(raised.value) == f"reconet.{old} has moved to {new}."
    assert find_spec(new) is not None


def test_importing_from_the_package_gives_the_new_name_too() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"has moved to reconet\.models\.decompose"):
        from reconet import inside  # noqa: F401


def test_a_name_that_never_was_a_module_is_not_found_as_usual() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'reconet\.nothing'"):
        importlib.import_module("reconet.nothing")


def test_importing_the_package_imports_nothing_that_is_slow() -> None:
    code = "import sys, reconet; sys.exit(bool({'torch', 'importlib.abc'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert set(dir(reconet)) == set(reconet.__all__)
