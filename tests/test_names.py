"""Names of files and classes may hold anything: no verb lets a terminal or a browser obey them."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reconet.system import readable
from tests.factories import tiny_network, tiny_recipe, write_run
from tests.fuzz.hostile import run_verb

TITLE = "\x1b]0;evil\x07"  # sets the title of a terminal
NO_TEXT = os.fsdecode(b"\xff\xc3")  # bytes that are no UTF-8
CLASSES = (f"road{TITLE}", "roof\u202e\x9b31m 屋根 $_")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a run whose classes, and a folder whose images, have names that nobody should have."""
    place = tmp_path_factory.mktemp("names")
    rng = np.random.default_rng(0)
    for kind in ("images", "masks"):
        (place / f"data{TITLE}" / kind).mkdir(parents=True)
    for stem in (f"a{TITLE}", f"b{NO_TEXT}", "c"):
        image_hwc = rng.integers(0, 256, (40, 50, 3), np.uint8)
        Image.fromarray(image_hwc).save(place / f"data{TITLE}/images/{stem}.png")
        Image.fromarray(image_hwc[..., 0] % 2).save(place / f"data{TITLE}/masks/{stem}.png")
    options = {"classes": list(CLASSES), "val_fraction": 0.9}
    (place / f"data{TITLE}/mine.json").write_text(json.dumps(options))
    recipe = tiny_recipe("model.aux=false", "model.rank=2")
    data = recipe.data.model_copy(
        update={"name": "folder", "root": place / f"data{TITLE}", "options": options}
    )
    network = tiny_network(
        recipe.model_copy(update={"data": data}), classes=CLASSES, palette=((0, 0, 0), (9, 9, 9))
    )
    return write_run(place / f"run{TITLE}", network, log=True)


def image_of(run: Path) -> str:
    return str(next((run.parent / f"data{TITLE}/images").glob(f"b{NO_TEXT}*")))


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "evaluate": lambda run: ["evaluate", str(run), "--device=cpu"],
    "evaluate-json": lambda run: ["evaluate", str(run), "--device=cpu", "--json"],
    "predict": lambda run: ["predict", str(run), image_of(run), "--device=cpu"],
    "predict-json": lambda run: ["predict", str(run), image_of(run), "--device=cpu", "--json"],
    "explain": lambda run: ["explain", str(run), image_of(run), "--ranks=1", "--device=cpu"],
    "report": lambda run: ["report", str(run)],
    "show": lambda run: ["show", str(run)],
    "check": lambda run: ["data", "check", str(run.parent / f"data{TITLE}/mine.json")],
    "no-such-run": lambda run: ["evaluate", f"{run}/{TITLE}{NO_TEXT}"],
    "no-such-recipe": lambda run: ["show", f"scenes/{TITLE}{NO_TEXT}"],
    "no-such-setting": lambda run: ["train", "scenes/tiny", f"--set={TITLE}={NO_TEXT}"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_verb_prints_no_name_that_a_terminal_would_obey(name: str, run: Path) -> None:
    assert run_verb(*COMMANDS[name](run)) == (2 if name.startswith("no-such") else 0)


@pytest.mark.parametrize(
    ("name", "page"), [("report", "report.html"), ("explain", "explain/**/explain.html")]
)
def test_a_page_holds_no_name_that_a_browser_would_obey(name: str, page: str, run: Path) -> None:
    assert run_verb(*COMMANDS[name](run)) == 0
    for path in run.glob(page):
        assert not readable.UNPRINTABLE.search(path.read_text("utf-8"))
    assert list(run.glob(page))
