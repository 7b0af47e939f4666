"""Check that the docs match the repository: links, commands, code names, and a short README."""

import ast
import re
import shlex
from importlib import import_module
from pathlib import Path
from statistics import median
from textwrap import dedent
from typing import Any

import pytest
import torch
from typer.main import get_command

from reconet import CONTEXTS
from reconet.cli import GROUPS, build_app, main
from reconet.recipes import apply_overrides, find_recipe
from tools.make_contexts import PAGE, needs, page
from tools.make_datasets import PAGE as DATASETS_PAGE
from tools.make_datasets import page as datasets_page
from tools.make_scale import PAGE as SCALE_PAGE
from tools.make_scale import page as scale_page
from tools.make_tour import LINK
from tools.make_tour import PAGE as TOUR
from tools.make_tour import page as tour_page

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
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


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=identify)
def test_links_to_headings_lead_to_a_heading(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]*#[^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        if path == "" or (path.endswith(".md") and not path.startswith("http")):
            assert anchor in anchors(page.parent / path if path else page), (
                f"{target} in {page.name}"
            )


def test_the_tree_of_the_tour_is_that_of_the_package() -> None:
    tree = next(block for block in fenced(TOUR) if block.startswith("reconet/"))
    listed = re.findall(r"^  (\w+)(?:\.py|/)", tree, re.M)
    layers = (ROOT / "tests" / "test_layers.py").read_text()
    assert [*listed, "__main__"] == re.findall(r'^    "(\w+)",$', layers, re.M)


def commands(page: Path, verb: str) -> list[list[str]]:
    lines = [line for block in fenced(page) for line in block.splitlines()]
    return [shlex.split(x, comments=True) for x in lines if x.startswith(f"reconet {verb} ")]


@pytest.mark.parametrize("page", PAGES, ids=identify)
def test_trainings_have_recipes_and_settings_that_exist(page: Path) -> None:
    for words in commands(page, "train"):
        if Path(words[2]).parts[0] != "runs":
            settings = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
            own = words[2] in ("mine/", "mine.json")  # the folder and the recipe of own-data.md
            recipe = apply_overrides(find_recipe("folder/reconet" if own else words[2]), settings)
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


@pytest.fixture(scope="module")
def flags_of_verbs() -> dict[str, set[str]]:
    """Return the flags of every verb, such as "data check"."""
    app: Any = get_command(build_app())
    verbs = dict(app.commands)
    for group in GROUPS:
        verbs |= {f"{group} {name}": verb for name, verb in verbs.pop(group).commands.items()}
    return {
        name: {
            "--help",
            *(flag for param in verb.params for flag in param.opts + param.secondary_opts),
        }
        for name, verb in verbs.items()
    }


@pytest.mark.parametrize("page", PAGES, ids=identify)
def test_commands_have_flags_that_exist(page: Path, flags_of_verbs: dict[str, set[str]]) -> None:
    if page.name == "CHANGELOG.md":
        return  # it names flags that are gone
    text = page.read_text()
    blocks = "\n".join(fenced(page)).replace("\\\n", " ")
    lines = re.findall(r"^(?:.*-m )?reconet ([a-z].*)$", blocks, re.M)
    for line in [*lines, *re.findall(r"`reconet ([a-z][^`]*)`", text)]:
        words = shlex.split(line, comments=True)
        verb = " ".join(words[: 2 if words[0] in GROUPS else 1])
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        unknown = used - flags_of_verbs.get(verb, set())
        assert not unknown, f"{unknown} of reconet {line}"


@pytest.mark.parametrize("page", PAGES, ids=identify)
def test_python_in_docs_imports_names_that_exist(page: Path) -> None:
    for block in re.findall(r"^ *```python\n(.*?)^ *```", page.read_text(), re.S | re.M):
        for node in ast.walk(ast.parse(dedent(block))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("reconet"):
                module = import_module(node.module or "")
                missing = [name.name for name in node.names if not hasattr(module, name.name)]
                assert not missing, f"{node.module} has no {missing}, which {page.name} imports"


@pytest.mark.parametrize("page", PAGES, ids=identify)
def test_files_that_docs_name_exist(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return  # it names files that are gone
    tops = "reconet|tests|tools|benchmarks|docs"
    for path in re.findall(rf"`((?:{tops})/[\w./-]+)`", page.read_text()):
        assert "<" in path or (ROOT / path).exists(), f"{path} in {page.name}"


def test_the_table_of_contexts_is_what_the_code_says() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


def test_the_table_of_datasets_is_what_the_code_says() -> None:
    assert DATASETS_PAGE.read_text() == datasets_page(DATASETS_PAGE.read_text()), "run `make docs`"


@pytest.mark.slow
def test_the_tables_of_scale_are_what_the_code_says() -> None:
    assert SCALE_PAGE.read_text() == scale_page(SCALE_PAGE.read_text()), "run `make docs`"


def test_the_tour_links_the_files_that_define_what_it_names() -> None:
    text = TOUR.read_text()
    assert text == tour_page(text), "run `make docs`"
    assert len(LINK.findall(text)) > 20
    moved = text.replace("context/reconet.py)", "context/reconet_plus.py)")
    assert moved != text
    assert tour_page(moved) == text


def test_what_a_context_needs_is_listed() -> None:
    with torch.device("meta"):
        assert needs("deeplabv3plus") == ["c1"]
        assert needs("encnet") == ["a loss of its own"]
        assert needs("emanet") == ["state that moves without a gradient"]
        assert needs("reconet") == ["weights of the size of the crop"]
        assert needs("fcn") == []


def without_links(text: str) -> str:
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)


def test_the_readme_is_short() -> None:
    lines = README.read_text().splitlines()
    assert len(lines) <= 150
    assert len(" ".join(lines[:30]).split()) <= 150


def test_the_first_screen_of_the_readme_says_what_is_reproduced() -> None:
    screen = "\n".join(README.read_text().splitlines()[:30])
    assert "- Reproduced:" in screen
    assert "- Not reproduced:" in screen


def test_no_cell_of_the_readme_has_more_than_20_words() -> None:
    rows = [line for line in README.read_text().splitlines() if line.startswith("|")]
    cells = [cell for row in rows for cell in without_links(row).strip("|").split("|")]
    assert max(len(cell.split()) for cell in cells) <= 20


def test_half_of_the_sentences_of_the_readme_have_at_most_14_words() -> None:
    prose = re.sub(r"^ *```.*?^ *```", "", README.read_text(), flags=re.S | re.M)
    paragraphs = re.split(r"\n\n|\n- ", re.sub(r"^[|#!].*$", "", prose, flags=re.M))
    sentences = [s for p in paragraphs for s in re.split(r"(?<=[.!?])\s+", without_links(p))]
    assert median(len(s.split()) for s in sentences if s.split()) <= 14
    assert ";" not in prose
