"""The documentation matches the repository: links lead somewhere, named files and verbs exist."""

import re
import shlex
from pathlib import Path

import pytest
import torch

from reconet.cli import main
from reconet.models.context import CONTEXTS
from reconet.recipes import find_recipe
from reconet.recipes.overrides import apply_overrides
from tools.make_contexts import PAGE, needs, page, read_docstring
from tools.make_scale import PAGE as SCALE_PAGE
from tools.make_scale import page as scale_page
from tools.make_tour import LINK
from tools.make_tour import PAGE as TOUR
from tools.make_tour import page as tour_page

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def identify(path: Path) -> str:
    return str(path.relative_to(ROOT))


def fenced(page: Path) -> list[str]:
    return re.findall(r"^ *```.*?\n(.*?)^ *```", page.read_text(), re.S | re.M)


@pytest.mark.parametrize("page", PAGES, ids=identify)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not target.startswith(("http:", "https:", "#")):
            assert (page.parent / target.split("#")[0]).exists(), f"{target} in {page.name}"


def test_the_file_tree_of_the_readme_is_that_of_the_repository() -> None:
    tree = next(block for block in fenced(ROOT / "README.md") if block.startswith("reconet/"))
    parents: list[str] = []
    for line in tree.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name = line.split()[0]
        parents[depth:] = [name]
        assert (ROOT / "".join(parents)).exists(), "".join(parents)
    listed = set(re.findall(r"^  (\w+\.py|\w+/)", tree, re.M))
    present = {
        path.name + ("/" if path.is_dir() else "")
        for path in (ROOT / "reconet").iterdir()
        if not path.name.startswith("_") and path.name != "py.typed"
    }
    assert listed == present


def commands(page: Path, verb: str) -> list[list[str]]:
    lines = [line for block in fenced(page) for line in block.splitlines()]
    return [shlex.split(x, comments=True) for x in lines if x.startswith(f"reconet {verb} ")]


@pytest.mark.parametrize("page", PAGES, ids=identify)
def test_trainings_have_recipes_and_settings_that_exist(page: Path) -> None:
    for words in commands(page, "train"):
        if Path(words[2]).parts[0] != "runs":
            settings = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
            recipe = apply_overrides(find_recipe(words[2]), settings)
            assert recipe.model.context in CONTEXTS


def test_what_is_evaluated_in_reproduce_was_trained_before() -> None:
    page = ROOT / "docs" / "reproduce.md"
    made: set[str] = set()
    for words in commands(page, "train"):
        needed = [word.split("=")[1] for word in words if word.startswith("train.init_from=")]
        assert made.issuperset(needed), words
        out = words[words.index("--out") + 1]
        assert out not in made, f"{out} is trained twice"
        made.add(out)
    for words in [*commands(page, "evaluate"), *commands(page, "report")]:
        assert made.issuperset(word for word in words if word.startswith("runs/")), words
    told = set(re.findall(r"`(runs/[a-z0-9-]+)`", page.read_text()))
    assert told <= made


@pytest.mark.parametrize("page", PAGES, ids=identify)
def test_commands_name_verbs_that_exist(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = page.read_text()
    for verb in sorted(set(re.findall(r"(?:^|`)reconet ([a-z][a-z-]*)", text, re.M))):
        assert main([verb, "--help"]) == 0, f"reconet {verb} in {page.name}"
    capsys.readouterr()


def test_the_table_of_contexts_is_what_the_code_says() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


@pytest.mark.slow
def test_the_tables_of_scale_are_what_the_code_says() -> None:
    assert SCALE_PAGE.read_text() == scale_page(SCALE_PAGE.read_text()), "run `make docs`"


def test_the_tour_links_the_lines_that_define_what_it_names() -> None:
    text = TOUR.read_text()
    assert text == tour_page(text), "run `make docs`"
    assert len(LINK.findall(text)) > 20
    path = ROOT / "reconet" / "models" / "context" / "reconet.py"
    line = next(
        x for x in text.split("(") if x.startswith("../reconet/models/context/reconet.py#L")
    )
    number = int(line.split("#L")[1].split(")")[0])
    assert "def forward(self, features" in path.read_text().splitlines()[number - 1]


def test_a_name_that_is_gone_stops_the_tour() -> None:
    with pytest.raises(SystemExit, match="links nowhere, which"):
        tour_page("[`nowhere`](../reconet/models/losses.py#L1)")


def test_every_context_names_its_paper_with_the_year_and_its_idea() -> None:
    for name, context in CONTEXTS.items():
        source = read_docstring(context)
        assert source.idea.endswith("."), name
        assert name == "plain" or re.search(r'et al\., ".+", .*20\d\d$', source.paper), name


def test_what_a_context_needs_is_found_out() -> None:
    with torch.device("meta"):
        assert needs("deeplabv3plus") == ["c1"]
        assert needs("encnet") == ["a loss of its own"]
        assert needs("emanet") == ["state that moves without a gradient"]
        assert needs("reconet") == ["weights of the size of the crop"]
        assert needs("fcn") == []


def test_the_readme_lists_every_context() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in CONTEXTS if f"`{name}`" not in text] == []
