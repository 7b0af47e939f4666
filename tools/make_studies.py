"""Write the tables, conditions and figures of docs/studies.md: `make studies`.

A study stands between `<!-- study DIRECTORY -->` and `<!-- end -->`. The directory is where the
study was written, e.g. runs/study-rank-dev. If it is on this machine, the part between the marks
is replaced. If not, the part stays as it is. Behind the directory may stand the variant that the
others are compared with. People write the text around the marks, and the command of the study.
"""

import re
from pathlib import Path

from reconet.study import open_study
from reconet.study.page import render_markdown
from reconet.study.plots import save_figures

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "studies.md"
PLACE = re.compile(r"(<!-- study (\S+)(?: baseline=(\w+))? -->\n)(.*?)(<!-- end -->)", re.S)


def page(text: str, root: Path = ROOT) -> str:
    return PLACE.sub(lambda match: _part(match, root), text)


def _part(match: re.Match[str], root: Path) -> str:
    directory = root / match[2]
    if not (directory / "study.json").is_file():
        return match[0]
    result = open_study(directory, match[3])
    images = save_figures(result, root / "docs" / "studies" / directory.name)
    return f"{match[1]}\n{render_markdown(result, images, root / 'docs')}\n{match[5]}"


if __name__ == "__main__":
    import tools.forms  # noqa: F401  Its forms of RecoNet+ are variants of a study of the page.

    PAGE.write_text(page(PAGE.read_text()))
