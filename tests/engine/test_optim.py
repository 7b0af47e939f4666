import pytest

from reconet.engine.optim import poly


def test_poly_starts_at_the_base_rate_and_ends_at_zero() -> None:
    assert poly(0, steps=100, lr=0.02) == 0.02
    assert poly(100, steps=100, lr=0.02) == 0.0
    assert poly(101, steps=100, lr=0.02) == 0.0


def test_poly_follows_the_formula_in_between() -> None:
    assert poly(75, steps=100, lr=1.0) == pytest.approx(0.25**0.9)
    assert poly(75, steps=100, lr=1.0, power=2.0) == pytest.approx(0.0625)
