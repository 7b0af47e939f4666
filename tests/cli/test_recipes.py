"""`reconet recipes`: the list."""

import json

import pytest

from reconet.recipes import RECIPES
from tests.cli.run import run


def test_recipes_are_listed_with_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "recipes")
    assert code == 0
    assert len(out.splitlines()) == len(RECIPES)
    assert set(json.loads(run(capsys, "recipes", "--json")[1])) == set(RECIPES)
