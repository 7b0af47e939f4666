"""Puts finished studies into docs/studies.md: tables, conditions and figures. `make studies`.

A place for one is `<!-- study DIRECTORY -->` ... `<!-- end -->`, with the directory that the study
was written to, e.g. runs/study-rank-quick. What stands between the marks is made anew; a study that
is not on this machine stays as it is, or, if it never was there, says with which command to run it.
The words around them are written by people.
"""

import re
from pathlib import Path

from reconet.study.page import markdown
from reconet.study.plots import save
from reconet.study.run import open_study

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "studies.md"
PLACE = re.compile(r"(<!-- study (\S+) -->\n)(.*?)(<!-- end -->)", re.S)
NOT_YET = "not run yet: "
# How the directories study-NAME, study-NAME-quick and study-NAME-voc come to be.
OPTIONS = {
    "": "",
    "quick": " --quick",
    "voc": " --recipe voc12/reconet_r50 --set data.root=/data/voc --seeds 3 --out {directory}",
}


def page(text: str, root: Path = ROOT) -> str:
    return PLACE.sub(lambda match: _part(match, root), text)


def _part(match: re.Match[str], root: Path) -> str:
    directory = root / match[2]
    if (directory / "study.json").is_file():
        result = open_study(directory)
        images = save(result, root / "docs" / "studies" / directory.name)
        return f"{match[1]}\n{markdown(result, images, root / 'docs')}\n{match[4]}"
    before = match[3].strip()
    if before and not before.startswith(NOT_YET):
        return match[0]
    return f"{match[1]}\n{NOT_YET}`{command(match[2])}`\n\n{match[4]}"


def command(directory: str) -> str:
    """What makes the study of this directory."""
    _, name, *more = Path(directory).name.split("-")
    return f"reconet study {name}{OPTIONS[more[0] if more else '']}".format(directory=directory)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
