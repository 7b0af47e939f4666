"""What verbs print: names as they are, paths in one piece, and one kind of bar."""

import pytest
import torch

from reconet.cli.output import bar, busy, print_result
from reconet.cli.tables.results import score_tables, table
from reconet.evaluation.evaluate import Evaluation

NAMES = ("grass[/x]", "sky [bold]b", ":smile:", "[a]")


def test_names_that_look_like_markup_are_printed_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = Evaluation(
        dataset="folder",
        split="val",
        images=1,
        protocol="[whole]",
        step=1,
        figures={"miou": 0.5},
        iou=dict.fromkeys(NAMES, 0.5),
        count_kk=torch.eye(4),
    )
    print_result({}, score_tables(result), as_json=False)
    out = capsys.readouterr().out
    for name in (*NAMES, "[whole]"):
        assert name in out
    print_result({}, [table("a/[b]", ["[c] and more"], [["[/d]"]])], as_json=False)
    out = capsys.readouterr().out
    for name in ("a/[b]", "[c]", "[/d]"):
        assert name in out


def test_a_long_path_is_not_broken_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/".join(["runs", "[a]", *["and so on"] * 40])
    print_result({}, [path], as_json=False)
    assert capsys.readouterr().out == f"{path}\n"


def test_a_line_beside_a_bar_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    text = f"writing runs/[a]/x/{'long' * 80} ..."
    with bar("score") as one:
        one.line(text)
    with busy("opening [/a]") as tell:
        tell("reading [/b]")
    assert capsys.readouterr().err == f"{text}\n"


def test_where_there_is_no_terminal_a_bar_is_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 1000, 6))
    monkeypatch.setattr("reconet.cli.output.time.monotonic", lambda: next(clock))
    with bar("evaluate") as one:
        tick = one.count(5)
        for _ in range(4):
            tick()
    said = capsys.readouterr().err.splitlines()
    assert said == ["evaluate: 1 of 5, about 48 s left", "evaluate: 3 of 5, about 16 s left"]
    with bar("steps", lines=False) as silent:
        silent.at(3, 5)
    assert capsys.readouterr().err == ""
