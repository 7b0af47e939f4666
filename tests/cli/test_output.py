"""What verbs print: names as they are, paths in one piece, and one kind of progress bar."""

import io

import pytest

from reconet.cli import make_table, print_result, show_progress

NAMES = ("grass[/x]", "sky [bold]b", ":smile:", "[a]")


def test_names_that_look_like_markup_are_printed_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [[name, "0.5"] for name in NAMES]
    table = make_table("a/[b]", ["[c] and more", "%"], rows, caption="[/d]")
    print_result({}, [table, "[whole]"], as_json=False)
    out = capsys.readouterr().out
    for name in (*NAMES, "a/[b]", "[c]", "[/d]", "[whole]"):
        assert name in out


def test_a_long_path_is_not_broken_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/".join(["runs", "[a]", *["and so on"] * 40])
    print_result({}, [path], as_json=False)
    assert capsys.readouterr().out == f"{path}\n"


def test_a_note_beside_a_bar_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    text = f"writing runs/[a]/x/{'long' * 80} ..."
    with show_progress("score", "opening [/a]") as progress:
        progress.note(text)
        progress.status("reading [/b]")
    assert capsys.readouterr().err == f"{text}\n"


def test_where_there_is_no_terminal_progress_is_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 1000, 6))
    monkeypatch.setattr("reconet.cli.output.time.monotonic", lambda: next(clock))
    with show_progress("evaluate") as progress:
        progress.start(5)
        for _ in range(4):
            progress.advance()
        progress.start(3, "write")
        progress.advance()
        progress.status("b.png")
        progress.advance()
    assert capsys.readouterr().err.splitlines() == [
        "evaluate: 2 of 5, about 18 s left",
        "evaluate: 4 of 5, about 6 s left",
        "write: 2 of 3, about 6 s left, b.png",
    ]
    with show_progress("slow start") as progress:
        progress.start(9)
        next(clock)  # processes that start
        progress.advance()
        progress.advance()
        progress.advance()
    assert capsys.readouterr().err.splitlines() == [
        "slow start: 1 of 9",  # nothing is known about the pace yet
        "slow start: 3 of 9, about 36 s left",
    ]
    with show_progress("steps", lines=False) as silent:
        silent.start(5)
        silent.advance(3)
    assert capsys.readouterr().err == ""


def test_on_a_terminal_a_count_has_a_bar_and_a_status_without_a_count_disappears(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "80")
    with show_progress("evaluate", "opening [/a]") as progress:
        progress.start(4)
        progress.advance(3)
        progress.status("a long status, cut at the end of the line")
        progress.advance()
        progress.start(2, "write")
    text = screen.getvalue()
    assert "opening [/a]" in text
    last = text.split("\x1b[1A")[-1]  # the frame that stays
    assert "evaluate 4 of 4" in last
    assert "a long status, cut at" in last
    assert "write 0 of 2" in last
    assert "0:00:00" in last
    assert "opening" not in last


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True
