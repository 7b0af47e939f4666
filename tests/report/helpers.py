"""Runs to report on, and what every page must keep to."""

import re
from pathlib import Path

import pytest

from reconet.recipes import Recipe
from reconet.system.run_files import BEST
from tests.cli.run import run
from tests.factories import tiny_network, tiny_recipe, write_run
from tests.pages import Page


def small_recipe(*settings: str) -> Recipe:
    few = ["data.options.val=3", "data.options.size=[40, 48]", "data.crop=32x48"]
    return tiny_recipe(*few, *settings)


def make_run(
    directory: Path,
    recipe: Recipe,
    *,
    best: bool = True,
    log: bool = True,
    classes: tuple[str, ...] | None = None,
) -> Path:
    """Write a run directory as a training leaves it, perhaps without network or log."""
    write_run(directory, tiny_network(recipe, classes=classes, step=50), log=log)
    if not best:
        (directory / BEST).unlink()
    return directory


def report(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    return run(capsys, "report", "--device=cpu", *map(str, arguments))


def assert_alone(text: str) -> None:
    """Assert that nothing in the file makes a browser load anything."""
    page = Page(text)
    for _, attributes in page.tags:
        for name in ("src", "href", "srcset", "action", "data", "poster", "xlink:href"):
            assert (attributes.get(name) or "data:").startswith("data:")
        assert "url(" not in (attributes.get("style") or "")
        assert not any(name.startswith("on") for name in attributes)
    assert not page.all("script")
    assert not page.all("link")
    styles = "".join(re.findall(r"<style>(.*?)</style>", text, re.S))
    assert "@import" not in styles
    assert "url(" not in styles
    assert "default-src 'none'" in str(page.all("meta"))
