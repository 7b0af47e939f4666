"""Write the table of docs/speed.md: `make bench`.

    .venv/bin/python -m tools.make_speed               measure, then write: half an hour
    .venv/bin/python -m tools.make_speed bench.json    write what `reconet bench all --json` printed

It also names the rows of README.md that quote another figure than the page.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reconet.bench.summary import run_command

ROOT = Path(__file__).parent.parent
PAGE, README = ROOT / "docs" / "speed.md", ROOT / "README.md"
COMMAND = "reconet bench all"
MARKED = re.compile(r"(<!-- figures -->\n).*?(<!-- end -->)", re.S)
README_ROW = re.compile(r"^\| (?P<text>.+?) \| `(?P<command>reconet bench .+?)` \|$", re.M)


def section(values: Mapping[str, Any]) -> str:
    """Return the machine and the table of figures in Markdown."""
    machine = "\n".join(f"- {name}: {text}" for name, text in values["machine"].items())
    runs = values["runs"]
    lines = [f"| what | times as fast, smallest of {runs} | all runs | command |"]
    lines += ["|---|---|---|---|", *map(_row, values["figures"])]
    table = "\n".join(lines)
    return f"`{COMMAND} --runs {runs}` on this machine:\n\n{machine}\n\n{table}\n"


def _row(figure: Mapping[str, Any]) -> str:
    smallest = "not here" if figure["smallest"] is None else f"**{figure['smallest']:.2f}**"
    ratios = ", ".join(f"{ratio:.2f}" for ratio in figure["ratios"])
    return f"| {figure['what']} | {smallest} | {ratios} | `{figure['command']}` |"


def page(text: str, values: Mapping[str, Any]) -> str:
    """Replace the section between the two marks."""
    return MARKED.sub(lambda m: m[1] + "\n" + section(values) + "\n" + m[2], text)


def stale_rows(readme: str, figures: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the rows of a README that quote no figure of their command, and what they may quote.

    A row quotes a figure if it has it with one digit or two: 5.2 or 5.21 times.
    """
    stale = []
    for row in README_ROW.finditer(readme):
        own = [f for f in figures if f["command"] == row["command"] and f["smallest"] is not None]
        quoted = re.findall(r"\d+\.\d+", row["text"])
        allowed = {form.format(f["smallest"]) for f in own for form in ("{:.1f}", "{:.2f}")}
        if not quoted or not set(quoted) <= allowed:
            choice = "; ".join(f"{f['what']}: {f['smallest']:.2f}" for f in own)
            stale.append(f"{row['text']} -> {choice or 'the page has no figure of its command'}")
    return stale


def main() -> None:
    """Measure or read the figures, write the page, and print rows of the README that are old."""
    given = sys.argv[1:]
    values = json.loads(Path(given[0]).read_text()) if given else run_command(COMMAND)
    PAGE.write_text(page(PAGE.read_text(), values))
    for row in stale_rows(README.read_text(), values["figures"]):
        print(f"README.md: {row}")


if __name__ == "__main__":
    main()
