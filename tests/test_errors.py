import pickle

import pytest

from reconet.errors import MissingExtraError, RecipeError, ReconetError, first_line, pick

TABLE = {"reconet": 1, "fcn": 2}


def test_pick_returns_what_the_table_holds() -> None:
    assert pick(TABLE, "fcn", "context") == 2


def test_pick_says_what_was_asked_what_is_near_and_what_exists() -> None:
    with pytest.raises(RecipeError) as raised:
        pick(TABLE, "recnet", "context")
    assert str(raised.value) == (
        "unknown context 'recnet'. Did you mean 'reconet'? Choose from: fcn, reconet. A context of "
        "your own has to be imported first (--import, docs/python.md)."
    )


def test_pick_makes_no_suggestion_where_nothing_is_near() -> None:
    with pytest.raises(RecipeError, match=r"unknown context 'xyz'\. Choose from"):
        pick(TABLE, "xyz", "context")


@pytest.mark.parametrize(
    ("message", "line"),
    [("one", "one"), ("\n one\ntwo", "one"), ("", "ValueError"), (" \n", "ValueError")],
)
def test_the_first_line_of_an_error_is_its_kind_if_it_says_nothing(message: str, line: str) -> None:
    assert first_line(ValueError(message)) == line


def test_a_missing_extra_names_the_command_that_installs_it() -> None:
    assert "pip install '.[export]' in the clone" in str(MissingExtraError("export", "ONNX export"))
    assert issubclass(MissingExtraError, ReconetError)


def test_errors_survive_the_way_out_of_a_worker_process() -> None:
    error = MissingExtraError("data", "reading .mat files")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
