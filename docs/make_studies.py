"""Puts finished studies into docs/studies.md: tables, conditions and figures. `make studies`.

A place for one is `<!-- study DIRECTORY -->` ... `<!-- end -->`, with the directory that the study
was written to, e.g. runs/study-rank-quick. What stands between the marks is made anew; a study that
is not on this machine stays as it is. The words around them are written by people.
"""

import re
from pathlib import Path

from reconet.study.page import markdown
from reconet.study.plots import save
from reconet.study.run import open_study

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "studies.md"
PLACE = re.compile(r"(<!-- study (\S+) -->\n)(.*?)(<!-- end -->)", re.S)


def page(text: str, root: Path = ROOT) -> str:
    return PLACE.sub(lambda match: _part(match, root), text)


def _part(match: re.Match[str], root: Path) -> str:
    directory = root / match[2]
    if not (directory / "study.json").is_file():
        return match[0]
    result = open_study(directory)
    pictures = save(result, root / "docs" / "studies" / directory.name)
    return f"{match[1]}\n{markdown(result, pictures, root / 'docs')}\n{match[4]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
