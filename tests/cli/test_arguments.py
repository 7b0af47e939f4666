"""Arguments that several verbs share: how their text is read."""

import pytest

from reconet.cli.arguments import eval_settings, parse_amount, parse_size
from reconet.errors import RecipeError
from reconet.recipes import apply_overrides
from tests.factories import tiny_recipe


def test_a_size_is_one_side_or_height_and_width() -> None:
    assert parse_size("64") == (64, 64)
    assert parse_size("64x128") == (64, 128)
    for wrong in ("", "x", "0", "64x", "1x2x3", "-4", "64.5", "9" * 12):
        with pytest.raises(RecipeError, match="--size takes"):
            parse_size(wrong)


def test_an_amount_has_units_of_1000_or_1024() -> None:
    assert parse_amount("20MB", "--max-upload") == 20 * 10**6
    assert parse_amount("1.5 GiB", "--memory") == 3 * 2**29
    assert [parse_amount(text, "--x") for text in ("1.5k", "7")] == [1500, 7]
    assert parse_amount("2GiB", "--x", least=64) == 2**31
    for wrong in ("", "0", "-3", "many", "3TB"):
        with pytest.raises(RecipeError, match=r"--x (takes an amount|must be at least 1)"):
            parse_amount(wrong, "--x")
    with pytest.raises(RecipeError, match="--memory must be at least 64, got '63'"):
        parse_amount("63", "--memory", 64)
    with pytest.raises(RecipeError, match="--memory must be at least 64MiB, got '1MB'"):
        parse_amount("1MB", "--memory", 2**26)


def test_options_become_settings_of_the_recipe() -> None:
    settings = eval_settings("0.5,1", True, "slide", "original")
    evaluation = apply_overrides(tiny_recipe(), settings).eval
    assert evaluation.scales == (0.5, 1.0)
    assert evaluation.flip
    assert (evaluation.mode, evaluation.relative_to) == ("slide", "original")
    assert eval_settings(None, None, None, None) == []


@pytest.mark.parametrize("scales", ["", "a", "0", "-1", "nan", "inf", "1,"])
def test_scales_are_numbers_above_0(scales: str) -> None:
    with pytest.raises(RecipeError, match="--scales takes numbers above 0"):
        eval_settings(scales, None, None, None)


def test_the_recipe_knows_the_largest_scale() -> None:
    with pytest.raises(RecipeError, match=r"eval\.scales.*16"):
        apply_overrides(tiny_recipe(), eval_settings("1,99", None, None, None))
