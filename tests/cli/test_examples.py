"""The help of every verb: it starts with a sentence, and its examples work when pasted."""

import inspect
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from PIL import Image

from reconet.cli import GROUPS, VERBS, build_app, main
from tests.cli.run import run
from tests.factories import smooth_image, tiny_network, tiny_recipe, write_run, write_video

ALL_VERBS = VERBS | {
    f"{group} {name}": verb for group, (_, verbs) in GROUPS.items() for name, verb in verbs.items()
}
# They take minutes, or other files.
UNTRIED = ("bench", "serve", "data prepare", "data check", "data inspect", "cache clear", "convert")
SLOW = ("explain", "export", "prune")  # tested elsewhere too
HOUSE_VERBS = (Path(__file__).parents[1] / "verbs.txt").read_text().split()


def examples(verb: Callable[..., None]) -> list[str]:
    text = inspect.getdoc(verb) or ""
    return [line.strip() for line in text.split("Examples:\n")[1].splitlines()]


def reconet_words(example: str) -> list[str] | None:
    """Return the arguments of reconet in a line for a shell, if it is in there."""
    words = shlex.split(example, comments=True)
    return words[words.index("reconet") + 1 :] if "reconet" in words else None


EXAMPLES = [example for verb in ALL_VERBS.values() for example in examples(verb)]


@pytest.mark.parametrize("verb", ALL_VERBS.values(), ids=ALL_VERBS)
def test_help_starts_with_a_sentence_and_has_two_to_five_examples(
    verb: Callable[..., None],
) -> None:
    summary = (inspect.getdoc(verb) or "").splitlines()[0]
    assert summary.split()[0].lower() in HOUSE_VERBS
    assert summary.endswith(".")
    assert 2 <= len(examples(verb)) <= 5


@pytest.mark.parametrize("group", ["", *GROUPS])
def test_no_sentence_in_a_list_of_verbs_is_cut_off(
    capsys: pytest.CaptureFixture[str], group: str
) -> None:
    rows = run(capsys, *group.split(), "--help")[1].split("Commands:\n")[1].splitlines()
    assert [row for row in rows if not row.endswith(".") or row.endswith("...")] == []


@pytest.mark.parametrize("name", ALL_VERBS)
def test_the_help_names_arguments_without_types_of_python(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    text = run(capsys, *name.split(), "--help")[1]
    assert re.search(r"<(list|str|path|int)\b", text) is None
    assert ("Arguments:" in text) != text.splitlines()[0].endswith("[OPTIONS]")
    assert "  -h, --help " in text


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_can_be_parsed(example: str) -> None:
    words = reconet_words(example)
    if words is None:
        assert example.startswith("curl ")
        return
    command = typer.main.get_command(build_app())
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context(command.name, words)


def is_quick(example: str) -> bool:
    """Tell whether an example needs no other files than a run and images, and takes seconds."""
    if re.match(r"reconet (recipes|zoo|data list|cache list|study .*--list)", example):
        return True
    if not re.match(r"reconet (?!bench|serve)", example) or "openvino" in example:
        return False
    return re.search(r"scenes/tiny|runs/(tiny|first)", example) is not None


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the directory that the examples are pasted in."""
    directory = tmp_path_factory.mktemp("desk")
    for name in ("first", "second"):
        network = tiny_network(tiny_recipe("model.rank=16"))
        write_run(directory / "runs" / name, network, log=True)
    (directory / "photos").mkdir()
    for name in ("street.jpg", "photos/a.jpg"):
        Image.fromarray(smooth_image(1, 64, 80)).save(directory / name)
    write_video(directory / "street.mp4", 2)
    return directory


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
        for name in ALL_VERBS
        if not name.startswith(UNTRIED)
    ],
)
def test_the_quick_examples_of_a_verb_work_when_pasted(
    name: str, desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desk)
    pasted = [example for example in examples(ALL_VERBS[name]) if is_quick(example)]
    assert pasted
    for example in pasted:
        code, out, err = run(capsys, *(reconet_words(example) or []))
        assert code == 0, err
        assert out or " train " in example


@pytest.mark.slow
def test_the_check_of_the_scenes_works_when_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(reconet_words(examples(ALL_VERBS["data check"])[0])) == 0


def test_the_first_commands_of_the_help_name_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "--help")[1].split("Start here:")[1].split("Options:")[0]
    for line in text.strip().splitlines():
        words = reconet_words(line) or []
        assert main([*words[: 2 if words[0] in GROUPS else 1], "--help"]) == 0
    capsys.readouterr()
